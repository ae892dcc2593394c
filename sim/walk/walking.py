"""One decision: partitions fill themselves in order, then take from others."""

from sim.jit import array_kernel
from sim.walk.desk import Desk
from sim.walk.laying import book
from sim.walk.placing import place
from sim.walk.plan import Rule
from sim.walk.queueing import Queue, is_eligible, turn_of

OWN = -1  # nobody's prey


@array_kernel
def _fill(desk: Desk, rule: Rule, queue: Queue, partition: int, starts: int, takes: bool) -> int:
    """Start what fits of the partition's own queue, or of the others'; number of starts so far.

    The answer depends on the gang, the profile and the partition's version, so what was refused
    in this version is refused without a look.
    """
    for i in turn_of(desk, rule, queue, partition, takes):
        if not is_eligible(queue, i, partition, takes):
            continue
        job, gang = queue.job[i], queue.gang[i]
        profile, at = desk.job_profile[job], desk.first[starts]
        known = desk.refused[partition, profile, gang] == desk.version[partition]
        if not known and place(desk, rule, partition, gang, profile, at):
            book(desk, job, gang, at, partition)
            queue.started[i] = True
            desk.job[starts] = job
            desk.taker[starts] = partition if takes else OWN
            starts += 1
            desk.first[starts] = at + gang
            continue
        desk.refused[partition, profile, gang] = desk.version[partition]
        if not rule.skip_blocked and not takes:
            break
    return starts


@array_kernel
def fill_own(desk: Desk, rule: Rule, queue: Queue) -> int:
    """Plan starts from the partitions' own queues on a desk that was laid out; how many."""
    starts = 0
    for partition in range(len(desk.version) - 1):
        starts = _fill(desk, rule, queue, partition, starts, False)
    return starts


@array_kernel
def steal(desk: Desk, rule: Rule, queue: Queue, starts: int) -> int:
    """Plan starts from others' queues behind the first `starts`; how many there are in all."""
    for partition in range(len(desk.version) - 1):
        starts = _fill(desk, rule, queue, partition, starts, True)
    return starts
