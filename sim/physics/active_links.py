"""Links that a refilling looks at, in the state they have when a given rate is reached.

A link that nobody has looked at so far has had exactly the stops of the last filling; they are
repeated in their order, so that its sums have the same bits as if all links had been filled anew.
"""

import numpy as np

from sim.jit import kernel
from sim.physics.fill_heap import add_to_heap
from sim.physics.link_loads import NOBODY, RISING, SCRIPTED, STOPPED, UNKNOWN, UNSEEN, LinkLoads
from sim.physics.link_network import LinkNetwork
from sim.physics.max_min import renew_rate
from sim.physics.sorting import sort_up
from sim.physics.stop_heap import push_due

AT_BITS = 31  # of an entry's place in the pool, in a number that sorts by job
AT_MASK = (1 << AT_BITS) - 1


@kernel
def _stopped_before(loads: LinkLoads, job: int, rate: float, batch: int) -> bool:
    row = loads.job[job]
    return bool(row.rate < rate or (row.rate == rate and row.batch < batch))


@kernel
def _meet(loads: LinkLoads, job: int, rate: float, batch: int) -> bool:
    """Take note of a job on a link that becomes active; whether it has stopped before."""
    row, counts = loads.job[job], loads.counts[0]
    if row.phase == STOPPED:
        return _stopped_before(loads, job, rate, batch)
    if row.phase != UNSEEN:
        return False
    if row.rate != UNKNOWN and _stopped_before(loads, job, rate, batch):
        return True
    loads.part.job[counts.num_seen].job = job
    counts.num_seen += 1
    if row.rate == UNKNOWN:
        row.phase = RISING
    else:
        row.phase = SCRIPTED
        counts.num_due = push_due(loads.part.job, counts.num_due, job, row.rate, row.batch)
    return False


@kernel
def _later(loads: LinkLoads, one: int, other: int) -> bool:
    """Whether the job of entry `one` stopped after that of `other`; jobs in a batch by row."""
    mine, theirs = loads.entry[one].job, loads.entry[other].job
    a, b = loads.job[mine], loads.job[theirs]
    if a.rate != b.rate:
        return bool(a.rate > b.rate)
    if a.batch != b.batch:
        return bool(a.batch > b.batch)
    return bool(mine > theirs)


@kernel
def _sink(loads: LinkLoads, at: int, count: int) -> None:
    entry = loads.part.entry
    value = entry[at].order
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _later(loads, entry[child + 1].order, entry[child].order):
            child += 1
        if not _later(loads, entry[child].order, value):
            break
        entry[at].order = entry[child].order
        at = child
    entry[at].order = value


@kernel
def _sort_by_stop(loads: LinkLoads, count: int) -> None:
    """Heap sort of the first `count` entries in `order`."""
    entry = loads.part.entry
    for at in range(count // 2 - 1, -1, -1):
        _sink(loads, at, count)
    for last in range(count - 1, 0, -1):
        first = entry[0].order
        entry[0].order = entry[last].order
        entry[last].order = first
        _sink(loads, 0, last)


@kernel
def _list_by_job(loads: LinkLoads, on: int) -> int:
    """Write the link's entries to `order`, each with its job above it; how many."""
    count, at = 0, loads.link[on].head
    while at != NOBODY:
        loads.part.entry[count].order = (loads.entry[at].job << AT_BITS) | at
        count += 1
        at = loads.entry[at].after
    sort_up(loads.part.entry["order"], count)
    return count


@kernel
def activate(loads: LinkLoads, network: LinkNetwork, on: int, rate: float, batch: int) -> None:
    """Look at link `on` from now on; all that stopped before (rate, batch) has stopped there."""
    link, row, counts = loads.link[on], loads.part.link[on], loads.counts[0]
    if link.is_active != 0:
        return
    link.is_active = 1
    link.full_rate = np.inf
    loads.part.link[counts.num_active].active = on
    counts.num_active += 1
    row.left = network.capacity[on]
    row.weight = 0.0
    row.floor = 0.0
    row.rising = _list_by_job(loads, on)
    stopped, order = 0, loads.part.entry
    for k in range(row.rising):
        at = order[k].order & AT_MASK
        row.weight += loads.entry[at].weight
        if _meet(loads, loads.entry[at].job, rate, batch):
            order[stopped].order = at
            stopped += 1
    _sort_by_stop(loads, stopped)
    for k in range(stopped):
        entry = loads.entry[order[k].order]
        row.left -= entry.weight * loads.job[entry.job].rate
        row.weight -= entry.weight
        row.floor = loads.job[entry.job].rate
    row.rising -= stopped
    if row.rising > 0:
        renew_rate(loads.part, on)
        counts.num_filling = add_to_heap(loads.part.link, on, counts.num_filling)
