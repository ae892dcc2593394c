"""The list generator: tasks in a given order, each where it ends first, gaps filled.

What is free of each server from now on are steps in time, and gaps in them. GPUs of a server are
alike, so numbers are enough: tasks that at no time want more GPUs than there are can be given GPUs
of their own from start to end. Gangs over several servers take places last.
"""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.online_tasks import PENDING, Site, Tasks, pace
from sim.jit import kernel

NEVER = np.inf


class Timetable(NamedTuple):
    """Stretch k of server s is from `at_s[s, k]` to the next one's begin, the last has no end."""

    at_s: FloatArray  # (S, K) ascending from 0, which is now
    free: IntArray  # (S, K) GPUs
    stretches: IntArray  # (S,) how many


def new_timetable(capacity: IntArray, most: int) -> Timetable:
    """Servers of `capacity` (S,) GPUs that are free for ever; each can have `most` stretches."""
    shape = (len(capacity), most)
    table = Timetable(
        np.empty(shape), np.empty(shape, dtype=np.int64), np.ones(len(capacity), np.int64)
    )
    table.at_s[:, 0] = 0.0
    table.free[:, 0] = capacity
    return table


@kernel
def stretch_at(table: Timetable, server: int, time_s: float) -> int:
    """The stretch of a server that holds `time_s` (0 or later)."""
    low, high = 0, table.stretches[server]
    while high - low > 1:
        middle = (low + high) // 2
        if table.at_s[server, middle] <= time_s:
            low = middle
        else:
            high = middle
    return low


@kernel
def earliest_s(
    table: Timetable, server: int, gang: int, ready_s: float, length_s: float, latest_s: float
) -> float:
    """When `gang` GPUs of a server are first free for `length_s`; NEVER if after `latest_s`."""
    begin, last = ready_s, table.stretches[server] - 1
    for k in range(stretch_at(table, server, ready_s), last + 1):  # a shortage moves begin past it
        if table.free[server, k] < gang:
            begin = NEVER if k == last else table.at_s[server, k + 1]
            if begin > latest_s:
                return NEVER
        elif k == last or table.at_s[server, k + 1] - begin >= length_s:
            return begin
    return begin


@kernel
def least_free(table: Timetable, server: int, begin_s: float, end_s: float) -> int:
    """GPUs that are free all the time."""
    k = stretch_at(table, server, begin_s)
    least: int = table.free[server, k]
    k += 1
    while k < table.stretches[server] and table.at_s[server, k] < end_s:
        least = min(least, table.free[server, k])
        k += 1
    return least


@kernel
def _cut(table: Timetable, server: int, time_s: float) -> int:
    """The stretch that begins at `time_s`, made if there is none."""
    k = stretch_at(table, server, time_s)
    if table.at_s[server, k] == time_s:
        return k
    for later in range(table.stretches[server], k + 1, -1):  # from the end, to overwrite nothing
        table.at_s[server, later] = table.at_s[server, later - 1]
        table.free[server, later] = table.free[server, later - 1]
    table.at_s[server, k + 1] = time_s
    table.free[server, k + 1] = table.free[server, k]
    table.stretches[server] += 1
    return k + 1


@kernel
def take(table: Timetable, server: int, gpus: int, begin_s: float, end_s: float) -> None:
    """Give away `gpus` of a server; nothing where it ends as it begins."""
    if end_s <= begin_s:
        return
    first = _cut(table, server, begin_s)
    for k in range(first, _cut(table, server, end_s)):
        table.free[server, k] -= gpus


ANY = -1  # GPUs of all types together
TRIES = 3  # a wider spread takes longer, and may need GPUs that are free for longer


class Scratch(NamedTuple):
    """Scratch of one look for a spread place."""

    most: IntArray  # (S,) GPUs that a server can give
    given: IntArray  # (S,) GPUs that it gives in the place looked at
    best: IntArray  # (S,) the same in the best place so far
    racks: IntArray  # (R,) 1: has GPUs of the place


def new_scratch(servers: int, racks: int) -> Scratch:
    """Nothing is written yet."""
    most, given, best = np.zeros((3, servers), dtype=np.int64)
    return Scratch(most, given, best, np.zeros(racks, dtype=np.int64))


@kernel
def is_type(wanted: int, gpu_type: int) -> bool:
    """Whether a GPU type is the one wanted; any is where ANY is."""
    return wanted < 0 or wanted == gpu_type


@kernel
def _free_all_along(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, gpu_type: int, begin_s: float, end_s: float,
    table: Timetable, scratch: Scratch,
) -> int:  # fmt: skip
    """Fill `scratch.most`; returns its sum."""
    total = 0
    for server in range(len(scratch.most)):  # afresh: begin and end change with every try
        fit = tasks.fit[tasks.kind[task], server]
        if fit == 0 or not is_type(gpu_type, site.server_type[server]):
            scratch.most[server] = 0
            continue
        scratch.most[server] = min(fit, least_free(table, server, begin_s, end_s))
        total += scratch.most[server]
    return total


@kernel
def _length_on_fullest(site: Site, tasks: Tasks, task: int, scratch: Scratch) -> float:
    """Fill `scratch.given` from the servers that can give most; returns the time it takes there."""
    left, servers, most, slowest = tasks.gang[task], 0, 0, 0.0
    scratch.given[:] = 0
    scratch.racks[:] = 0
    while left > 0:  # ends: the caller saw that all give enough
        pick = -1
        for server in range(len(scratch.most)):  # fewest servers; ties to the lowest number
            fresh = scratch.given[server] == 0 and scratch.most[server] > 0
            if fresh and (pick < 0 or scratch.most[server] > scratch.most[pick]):
                pick = server
        scratch.given[pick] = min(left, scratch.most[pick])
        left -= scratch.given[pick]
        servers += 1
        most = max(most, scratch.given[pick])
        scratch.racks[site.server_rack[pick]] = 1
    racks = scratch.racks.sum()
    for server in range(len(scratch.given)):  # only now: a pace depends on the whole spread
        if scratch.given[server] > 0:
            gpu_type = site.server_type[server]
            profile, gang = tasks.profile[task], tasks.gang[task]
            slowest = max(slowest, pace(site, profile, gang, gpu_type, most, servers, racks))
    length_s: float = tasks.work_s[task] * slowest
    return length_s


@kernel
def _next_change_s(table: Timetable, scratch: Scratch, time_s: float) -> float:
    """The first time after `time_s` at which some server's free GPUs change."""
    soonest = NEVER
    for server in range(len(scratch.most)):
        k = stretch_at(table, server, time_s) + 1
        if k < table.stretches[server]:
            soonest = min(soonest, table.at_s[server, k])
    return soonest


@kernel
def spread_place(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, gpu_type: int, ready_s: float, least_s: float,
    patience: float, beat_s: float, table: Timetable, scratch: Scratch,
) -> tuple[float, float]:  # fmt: skip
    """Begin and length of the first place over servers of one type, or of ANY; NEVER if none.

    Args:
        site: the cluster.
        tasks: all tasks.
        task: the one to place.
        gpu_type: type of GPU, or ANY.
        ready_s: not before.
        least_s: what the task takes at least.
        patience: weight of waiting, as `list_tasks` has it.
        beat_s: end plus weighted wait that it has to beat; looks no further.
        table: what is free.
        scratch: scratch; `given` holds the place.
    """
    begin = ready_s
    while begin + least_s + patience * (begin - ready_s) < beat_s:  # `least_s` might still win
        length = least_s
        for _ in range(TRIES):  # length depends on the place, and the place on length
            total = _free_all_along(
                site, tasks, task, gpu_type, begin, begin + length, table, scratch
            )
            if total < tasks.gang[task]:
                break
            takes = _length_on_fullest(site, tasks, task, scratch)
            if takes <= length:
                return begin, takes
            length = takes
        begin = _next_change_s(table, scratch, begin)
    return NEVER, 0.0


SPREAD = -1  # the place of a gang over several servers
NOWHERE = -2


class Rule(NamedTuple):
    """How tasks are placed."""

    patience: float  # seconds that a second of waiting for better GPUs counts beside the end
    holds: bool  # tasks whose parents are not done hold GPUs for later
    only_now: bool  # stop once no GPU is free now: what starts now is all that is asked for


class Listing(NamedTuple):
    """When and where each of n tasks runs; one that found no place begins NEVER."""

    begin_s: FloatArray  # (n,) from now
    end_s: FloatArray  # (n,)
    first: IntArray  # (n,) its servers are server[first : first + servers]
    servers: IntArray  # (n,)
    server: IntArray  # (M,)
    gpus: IntArray  # (M,) of that server


def new_listing(tasks: Tasks, servers: int) -> Listing:
    """Nobody is placed yet."""
    count = len(tasks.gang)
    most = int(np.minimum(tasks.gang, servers).sum())
    begin_s, end_s = np.full((2, count), NEVER)
    first, number = np.zeros((2, count), dtype=np.int64)
    server, gpus = np.zeros((2, most), dtype=np.int64)
    return Listing(begin_s, end_s, first, number, server, gpus)


@kernel
def list_tasks(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, order: IntArray, rule: Rule, table: Timetable, scratch: Scratch,
    listing: Listing,
) -> None:  # fmt: skip
    """Place tasks in order, each where its end, and its waiting times `patience`, is least.

    Args:
        site: the cluster.
        tasks: what there is to do.
        order: tasks that do not run, parents before children.
        rule: how.
        table: what is free, running tasks taken into account; what is placed is taken.
        scratch: scratch.
        listing: filled; running tasks get their ends.
    """
    idle, used = 0, 0
    for server in range(len(table.stretches)):  # counted once: each start now is taken off
        idle += table.free[server, 0]
    for task in range(len(tasks.gang)):  # first: children of running tasks read when these end
        if tasks.end_s[task] != PENDING:
            listing.begin_s[task], listing.end_s[task] = 0.0, tasks.end_s[task]
    for at in range(len(order)):  # one pass: what is placed stays
        if rule.only_now and idle <= 0:
            return
        task = order[at]
        ready = _ready_s(tasks, task, listing)
        if ready == NEVER or (rule.only_now and not rule.holds and ready > 0.0):
            continue
        used = _placed(site, tasks, task, ready, rule, table, scratch, listing, used)
        if listing.begin_s[task] == 0.0:
            idle -= tasks.gang[task]


@kernel
def _ready_s(tasks: Tasks, task: int, listing: Listing) -> float:
    """When the last parent ends; NEVER if one has no place."""
    ready = 0.0
    for edge in range(tasks.first_parent[task], tasks.first_parent[task + 1]):
        ready = max(ready, listing.end_s[tasks.parent[edge]])
    return ready


@kernel
def _placed(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, ready: float, rule: Rule, table: Timetable,
    scratch: Scratch, listing: Listing, used: int,
) -> int:  # fmt: skip
    """Take the best place for a task; returns how much of the listing's servers is used."""
    place, begin, length = _on_one_server(site, tasks, task, ready, rule.patience, table)
    beat = NEVER
    if place != NOWHERE:
        beat = begin + length + rule.patience * (begin - ready)
    if tasks.gang[task] > 1:
        apart, long = _on_several(site, tasks, task, ready, rule.patience, beat, table, scratch)
        if apart != NEVER:
            place, begin, length = SPREAD, apart, long
    if place == NOWHERE:
        return used
    listing.begin_s[task], listing.end_s[task] = begin, begin + length
    listing.first[task] = used
    if place != SPREAD:
        take(table, place, tasks.gang[task], begin, begin + length)
        listing.server[used], listing.gpus[used] = place, tasks.gang[task]
        listing.servers[task] = 1
        return used + 1
    for server in range(len(scratch.best)):  # ascending: workers follow the numbers of servers
        if scratch.best[server] > 0:
            take(table, server, scratch.best[server], begin, begin + length)
            listing.server[used], listing.gpus[used] = server, scratch.best[server]
            listing.servers[task] += 1
            used += 1
    return used


@kernel
def _on_one_server(
    site: Site, tasks: Tasks, task: int, ready: float, patience: float, table: Timetable
) -> tuple[int, float, float]:
    """Server, begin and length of the best place; of equals that with fewest GPUs free then."""
    best, best_begin, best_length, best_free, place = NEVER, 0.0, 0.0, 0, NOWHERE
    profile, gang = tasks.profile[task], tasks.gang[task]
    for server in range(len(table.stretches)):  # the best so far says how late each may begin
        if tasks.fit[tasks.kind[task], server] < gang:
            continue
        gpu_type = site.server_type[server]
        length = tasks.work_s[task] * pace(site, profile, gang, gpu_type, gang, 1, 1)
        latest = ready + (best - ready - length) / (1.0 + patience)
        begin = earliest_s(table, server, gang, ready, length, latest)
        if begin == NEVER:
            continue
        score = begin + length + patience * (begin - ready)
        free = table.free[server, stretch_at(table, server, begin)]
        if score < best or (score == best and free < best_free):
            best, best_begin, best_length, best_free = score, begin, length, free
            place = server
    return place, best_begin, best_length


@kernel
def _on_several(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, ready: float, patience: float, beat: float,
    table: Timetable, scratch: Scratch,
) -> tuple[float, float]:  # fmt: skip
    """Begin and length of the best spread that beats `beat`, in `scratch.best`; else NEVER.

    A gang keeps to one type of GPU, unless no type has enough.
    """
    found, found_length, enough = NEVER, 0.0, False
    gang = tasks.gang[task]
    for gpu_type in range(site.compute_s.shape[1] + 1):  # last ANY; each has to beat those before
        which = ANY if gpu_type == site.compute_s.shape[1] else gpu_type
        if which == ANY and enough:
            break
        total, largest = 0, 0
        for server in range(len(table.stretches)):  # spares the search where even all are too few
            fit = tasks.fit[tasks.kind[task], server]
            if fit > 0 and is_type(which, site.server_type[server]):
                total += fit
                largest = max(largest, fit)
        if total < gang:
            continue
        enough = True
        servers = max(2, -(-gang // largest))
        least = _least_s(site, tasks, task, which, min(gang - 1, largest), servers)
        begin, length = spread_place(
            site, tasks, task, which, ready, least, patience, beat, table, scratch
        )
        if begin != NEVER:
            score = begin + length + patience * (begin - ready)
            if score < beat:
                beat, found, found_length = score, begin, length
                for server in range(len(scratch.best)):  # a copy: the next type overwrites `given`
                    scratch.best[server] = scratch.given[server]
    return found, found_length


@kernel
def _least_s(site: Site, tasks: Tasks, task: int, which: int, most: int, servers: int) -> float:
    """What a spread takes at least; over ANY type no less than on the fastest."""
    least = NEVER
    for server in range(len(site.server_type)):
        gpu_type = site.server_type[server]
        if is_type(which, gpu_type) and tasks.fit[tasks.kind[task], server] > 0:
            profile, gang = tasks.profile[task], tasks.gang[task]
            least = min(least, pace(site, profile, gang, gpu_type, most, servers, 1))
    length_s: float = tasks.work_s[task] * least
    return length_s
