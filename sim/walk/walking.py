"""One decision: partitions fill themselves in order, then take from others."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.compiled.plan import ALIKE, NEVER
from sim.jit import array_kernel
from sim.walk.choosing import choose
from sim.walk.desk import Desk
from sim.walk.laying import book
from sim.walk.offering import offer_empty, offer_shared
from sim.walk.plan import Rule

OWN = -1  # nobody's prey


class Queue(NamedTuple):
    """The waiting jobs, first to start first."""

    job: IntArray  # (q,)
    gang: IntArray
    at: IntArray  # partition in whose queue it is
    may_go: BoolArray  # another partition may take it
    started: BoolArray


@array_kernel
def _place(desk: Desk, rule: Rule, partition: int, gang: int, profile: int, at: int) -> bool:
    """Write the GPUs of a gang under the sharing rule; False if it has to wait."""
    alone = rule.sharing != ALIKE and offer_empty(desk, partition) >= gang
    if alone and choose(desk, rule, partition, gang, profile, at):
        return True
    if rule.sharing == NEVER or offer_shared(desk, partition, profile, rule.least_speed) < gang:
        return False
    return choose(desk, rule, partition, gang, profile, at)


@array_kernel
def _fill(desk: Desk, rule: Rule, queue: Queue, partition: int, starts: int, takes: bool) -> int:
    """Start what fits of the partition's own queue, or of the others'; number of starts so far.

    The answer depends on the gang, the profile and the partition's version, so what was refused
    in this version is refused without a look.
    """
    for i in range(len(queue.job)):
        if queue.started[i] or (queue.at[i] == partition) == takes:
            continue
        if takes and not queue.may_go[i]:
            continue
        job, gang = queue.job[i], queue.gang[i]
        profile, at = desk.job_profile[job], desk.first[starts]
        known = desk.refused[partition, profile, gang] == desk.version[partition]
        if not known and _place(desk, rule, partition, gang, profile, at):
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
def walk(desk: Desk, rule: Rule, queue: Queue) -> int:
    """Plan the starts of one decision on a desk that was laid out; how many there are."""
    starts, partitions = 0, len(desk.version) - 1
    for partition in range(partitions):
        starts = _fill(desk, rule, queue, partition, starts, False)
    if rule.steals:
        for partition in range(partitions):
            starts = _fill(desk, rule, queue, partition, starts, True)
    return starts


def queue_of(order: IntArray, gang: IntArray, at: IntArray, may_go: BoolArray) -> Queue:
    """The queue before anything started."""
    return Queue(order, gang, at, may_go, np.zeros(len(order), dtype=np.bool_))
