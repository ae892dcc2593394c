"""Max-min rates after jobs came or went, to the last bit those of filling all links anew.

The last filling is played again where it matters. Links that somebody entered or left are active;
jobs on them have a script: they stop when they stopped the last time, if a link still holds them
there. Whoever stops earlier or later makes its other links active, usually a handful of thousands.

When a job stopped is its rate and its batch: by rounding, a stop at a rate can fill a further link
at that very rate.
"""

import numpy as np

from sim.heap import add_to_heap, drop_from_heap
from sim.jit import kernel
from sim.physics.link_loads import NOBODY, RISING, SCRIPTED, STOPPED, UNKNOWN, UNSEEN, LinkLoads
from sim.physics.link_network import MAX_MIN, LinkNetwork
from sim.physics.max_min import fills_at, first_gap, leave, renew, settle, sort_up

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
    """Sort the first `count` entries in `order`, as `sim.physics.max_min` sorts numbers."""
    entry, gap = loads.part.entry, first_gap(count)
    while gap > 0:  # not sort_up: rate, batch and row do not fit into one number
        for last in range(gap, count):  # the first of each chain have none before them
            value, at = entry[last].order, last
            while at >= gap and _later(loads, entry[at - gap].order, value):  # rows differ: no ties
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
    for k in range(row.rising):  # ascending jobs: sums as in a filling of all links
        at = order[k].order & AT_MASK
        row.weight += loads.entry[at].weight
        if _meet(loads, loads.entry[at].job, rate, batch):
            order[stopped].order = at
            stopped += 1
    _sort_by_stop(loads, stopped)
    for k in range(stopped):  # in the order of their stops, so that it rounds as it did then
        entry = loads.entry[order[k].order]
        row.left -= entry.weight * loads.job[entry.job].rate
        row.weight -= entry.weight
        row.floor = loads.job[entry.job].rate
    row.rising -= stopped
    if row.rising > 0:
        filling, size, rate = loads.part.filling, counts.num_filling, fills_at(loads.part, on)
        counts.num_filling = add_to_heap(filling, loads.part.link, size, rate, 0, on)


@kernel
def _first_due(loads: LinkLoads) -> int:
    return int(loads.part.job[loads.part.due[0].item].job)


@kernel
def _drop_due(loads: LinkLoads) -> None:
    """Take the job that is due first out of the heap."""
    counts, due = loads.counts[0], loads.part.due
    counts.num_due = drop_from_heap(due, loads.part.job, counts.num_due, due[0].item)


@kernel
def _next_stop(loads: LinkLoads, rate: float, batch: int) -> tuple[float, int]:
    """When somebody stops next after (rate, batch); infinite if nobody rises any more."""
    counts, due = loads.counts[0], loads.part.due
    # Some have stopped otherwise; they are taken out only when they come first.
    while counts.num_due > 0 and loads.job[_first_due(loads)].phase != SCRIPTED:
        _drop_due(loads)
    next_rate, next_batch = np.inf, 0
    if counts.num_filling > 0:
        next_rate = loads.part.filling[0].key
        next_batch = batch + 1 if next_rate == rate else 1
    if counts.num_due > 0 and (
        due[0].key < next_rate or (due[0].key == next_rate and due[0].rank < next_batch)
    ):
        next_rate, next_batch = due[0].key, due[0].rank
    return next_rate, next_batch


@kernel
def _activate_all(
    loads: LinkLoads, network: LinkNetwork, job: int, rate: float, batch: int
) -> None:
    row = loads.job[job]
    for at in range(row.first, row.first + row.number):  # its new time to stop is felt on each
        activate(loads, network, loads.entry[at].link, rate, batch)


@kernel
def _stop_on_full(loads: LinkLoads, network: LinkNetwork, rate: float, batch: int) -> int:
    """Stop everybody on active links that fill now; the number of jobs."""
    counts, filling, count = loads.counts[0], loads.part.filling, 0
    while counts.num_filling > 0 and filling[0].key == rate:  # those made active meanwhile included
        on = filling[0].item
        counts.num_filling = drop_from_heap(filling, loads.part.link, counts.num_filling, on)
        loads.link[on].full_rate = rate
        loads.link[on].full_batch = batch
        at = loads.link[on].head
        while at != NOBODY:  # in any order: who stops is sorted before it is booked
            job = loads.entry[at].job
            at = loads.entry[at].after
            row = loads.job[job]
            if row.phase == STOPPED or row.phase == UNSEEN:  # noqa: PLR1714
                continue
            as_before = row.phase == SCRIPTED and row.rate == rate and row.batch == batch
            row.phase = STOPPED
            row.rate = rate
            row.batch = batch
            loads.part.job[count].stopping = job
            count += 1
            if not as_before:
                _activate_all(loads, network, job, rate, batch)
    return count


@kernel
def _is_held(loads: LinkLoads, job: int) -> bool:
    """Whether a link that is not active holds the job at its old rate."""
    row = loads.job[job]
    for at in range(row.first, row.first + row.number):
        link = loads.link[loads.entry[at].link]
        if link.is_active == 0 and link.full_rate == row.rate and link.full_batch == row.batch:
            return True
    return False


@kernel
def _follow_script(
    loads: LinkLoads, network: LinkNetwork, rate: float, batch: int, count: int
) -> int:
    """Stop who stopped now the last time and is still held; let the others rise on."""
    counts, due = loads.counts[0], loads.part.due
    # After the full links: whoever they stopped has no script any more.
    while counts.num_due > 0 and due[0].key == rate and due[0].rank == batch:
        job = _first_due(loads)
        _drop_due(loads)
        row = loads.job[job]
        if row.phase != SCRIPTED:
            continue
        if _is_held(loads, job):
            row.phase = STOPPED
            loads.part.job[count].stopping = job
            count += 1
        else:
            row.phase = RISING
            _activate_all(loads, network, job, rate, batch)
    return count


@kernel
def _book_stops(loads: LinkLoads, count: int, rate: float) -> None:
    """Take the first `count` jobs of `stopping` off the active links, in ascending order."""
    part, changed = loads.part, 0
    sort_up(part.job["stopping"], count)
    for k in range(count):  # all at once: when a link fills is asked after the whole batch
        job = loads.job[part.job[k].stopping]
        for at in range(job.first, job.first + job.number):  # links not active fill as they did
            on, weight = loads.entry[at].link, loads.entry[at].weight
            if loads.link[on].is_active != 0:
                changed = leave(part, on, weight, rate, changed)
    loads.counts[0].num_filling = renew(part, changed, loads.counts[0].num_filling)


@kernel
def _finish(loads: LinkLoads) -> int:
    """Renew `spread_s` of the jobs that were looked at; list those it has changed for."""
    part, counts, count = loads.part, loads.counts[0], 0
    for k in range(counts.num_seen):  # listed in place: count never passes k
        job = part.job[k].job
        row = loads.job[job]
        row.phase = UNSEEN
        spread_s = row.latency_s + row.heavy_bytes / row.rate
        if spread_s != row.spread_s:
            row.spread_s = spread_s
            part.job[count].job = job
            count += 1
    for k in range(counts.num_active):  # only these have the flag, which is 0 between calls
        loads.link[part.link[k].active].is_active = 0
    counts.num_seen = 0
    counts.num_active = 0
    sort_up(part.job["job"], count)
    return count


@kernel
def refill(loads: LinkLoads, network: LinkNetwork) -> int:
    """Renew `spread_s` of everybody whose max-min rate the touched links change.

    Returns:
        Number of changed jobs: `job` of the first rows of `loads.part.job`, ascending.
    """
    rate, batch = -1.0, 0
    for k in range(loads.counts[0].num_touched):  # where jobs came or went; others follow
        activate(loads, network, loads.link[k].touched, rate, batch)
    while True:  # batch by batch, as a filling of all links stops jobs
        rate, batch = _next_stop(loads, rate, batch)
        if np.isinf(rate):
            return _finish(loads)
        count = _stop_on_full(loads, network, rate, batch)
        count = _follow_script(loads, network, rate, batch, count)
        _book_stops(loads, count, rate)


@kernel
def _gather(loads: LinkLoads) -> int:
    """Collect the jobs on touched links, ascending."""
    members = 0
    for k in range(loads.counts[0].num_touched):  # a job may be on several: once is enough
        at = loads.link[loads.link[k].touched].head
        while at != NOBODY:  # newest first; members are sorted in the end
            job = loads.entry[at].job
            at = loads.entry[at].after
            row = loads.job[job]
            if row.is_member != 0:
                continue
            row.is_member = 1
            loads.part.job[members].job = job
            members += 1
    sort_up(loads.part.job["job"], members)
    return members


@kernel
def _lay_out(loads: LinkLoads, members: int) -> None:
    """Copy the members' entries side by side, as `settle` wants them."""
    part, filled = loads.part, 0
    part.job[0].first = 0
    for k in range(members):  # the pool is in order of starts, settle adds in order of jobs
        row = loads.job[part.job[k].job]
        for at in range(row.first, row.first + row.number):  # a job's entries are together there
            part.entry[filled].link = loads.entry[at].link
            part.entry[filled].weight = loads.entry[at].weight
            filled += 1
        part.job[k + 1].first = filled
        part.job[k].heavy_bytes = row.heavy_bytes
        part.job[k].step_s = row.step_s


@kernel
def _settle_touched(loads: LinkLoads, network: LinkNetwork) -> int:
    """Settle the jobs on touched links, for K_WAY or DUTY."""
    members = _gather(loads)
    _lay_out(loads, members)
    settle(network, loads.part, members, loads.link)
    count = 0
    for k in range(members):  # listed in place: count never passes k, and jobs ascend
        job = loads.part.job[k].job
        row = loads.job[job]
        row.is_member = 0
        spread_s = row.latency_s + loads.part.job[k].seconds
        if spread_s != row.spread_s:
            row.spread_s = spread_s
            loads.part.job[count].job = job
            count += 1
    return count


@kernel
def resettle(loads: LinkLoads, network: LinkNetwork) -> int:
    """Renew `spread_s` where jobs came or went, and list the jobs whose value changed.

    K_WAY and DUTY ask only for the jobs on the very links. Max-min rates depend on all jobs that
    share links directly or through others; `refill` finds those whose rate really changes.
    A job that has just come has no older value: whoever starts it rates it in any case.

    Returns:
        Number of changed jobs: `job` of the first rows of `loads.part.job`, ascending.
    """
    whole = network.sharing == MAX_MIN
    count = refill(loads, network) if whole else _settle_touched(loads, network)
    for k in range(loads.counts[0].num_touched):
        loads.link[loads.link[k].touched].is_touched = 0
    loads.counts[0].num_touched = 0
    return count
