"""Links that a refilling looks at, in the state they have when a given rate is reached.

A link that nobody has looked at so far has had exactly the stops of the last filling; they are
repeated in their order, so that its sums have the same bits as if all links had been filled anew.
"""

import numpy as np

from sim.heap import add_to_heap
from sim.jit import kernel
from sim.physics.link_loads import NOBODY, RISING, SCRIPTED, STOPPED, UNKNOWN, UNSEEN, LinkLoads
from sim.physics.link_network import LinkNetwork
from sim.physics.max_min import fills_at
from sim.physics.sorting import first_gap, sort_up

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
    seen = counts.num_seen
    loads.part.job[seen].job = job
    counts.num_seen = seen + 1
    if row.rate == UNKNOWN:
        row.phase = RISING
    else:
        row.phase = SCRIPTED
        due, size = loads.part.due, counts.num_due
        counts.num_due = add_to_heap(due, loads.part.job, size, row.rate, row.batch, seen)
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
def _sort_by_stop(loads: LinkLoads, count: int) -> None:
    """Sort the first `count` entries in `order`, as `sim.physics.sorting` sorts numbers."""
    entry, gap = loads.part.entry, first_gap(count)
    while gap > 0:
        for last in range(gap, count):
            value, at = entry[last].order, last
            while at >= gap and _later(loads, entry[at - gap].order, value):
                entry[at].order = entry[at - gap].order
                at -= gap
            entry[at].order = value
        gap //= 3


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
        filling, size, rate = loads.part.filling, counts.num_filling, fills_at(loads.part, on)
        counts.num_filling = add_to_heap(filling, loads.part.link, size, rate, 0, on)
