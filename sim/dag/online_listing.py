"""The list generator: tasks in a given order, each where it ends first, gaps filled."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.online_room import (
    ANY,
    NEVER,
    Room,
    Scratch,
    earliest_s,
    least_free,
    of_kind,
    spread_place,
    stretch_at,
    take,
)
from sim.dag.online_tasks import PENDING, Site, Tasks, pace
from sim.jit import kernel

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
    return Listing(
        np.full(count, NEVER),
        np.full(count, NEVER),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(most, dtype=np.int64),
        np.zeros(most, dtype=np.int64),
    )


@kernel
def list_tasks(  # noqa: PLR0917  (compiled)
    site: Site,
    tasks: Tasks,
    order: IntArray,
    rule: Rule,
    room: Room,
    scratch: Scratch,
    listing: Listing,
) -> None:
    """Place tasks in order, each where its end, and its waiting times `patience`, is least.

    Args:
        site: the cluster.
        tasks: what there is to do.
        order: tasks that do not run, parents before children.
        rule: how.
        room: what is free, running tasks taken into account; what is placed is taken.
        scratch: scratch.
        listing: filled; running tasks get their ends.
    """
    idle, used = 0, 0
    for server in range(len(room.stretches)):
        idle += room.free[server, 0]
    for task in range(len(tasks.gang)):
        if tasks.end_s[task] != PENDING:
            listing.begin_s[task], listing.end_s[task] = 0.0, tasks.end_s[task]
    for at in range(len(order)):
        if rule.only_now and idle <= 0:
            return
        task = order[at]
        ready = _ready_s(tasks, task, listing)
        if ready == NEVER or (rule.only_now and not rule.holds and ready > 0.0):
            continue
        used = _placed(site, tasks, task, ready, rule, room, scratch, listing, used)
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
    site: Site, tasks: Tasks, task: int, ready: float, rule: Rule, room: Room, scratch: Scratch,
    listing: Listing, used: int,
) -> int:  # fmt: skip
    """Take the best place for a task; returns how much of the listing's servers is used."""
    place, begin, length = _on_one_server(site, tasks, task, ready, rule.patience, room)
    beat = NEVER
    if place != NOWHERE:
        beat = begin + length + rule.patience * (begin - ready)
    if tasks.gang[task] > 1:
        apart, long = _on_several(site, tasks, task, ready, rule.patience, beat, room, scratch)
        if apart != NEVER:
            place, begin, length = SPREAD, apart, long
    if place == NOWHERE:
        return used
    listing.begin_s[task], listing.end_s[task] = begin, begin + length
    listing.first[task] = used
    if place != SPREAD:
        take(room, place, tasks.gang[task], begin, begin + length)
        listing.server[used], listing.gpus[used] = place, tasks.gang[task]
        listing.servers[task] = 1
        return used + 1
    for server in range(len(scratch.best)):
        if scratch.best[server] > 0:
            take(room, server, scratch.best[server], begin, begin + length)
            listing.server[used], listing.gpus[used] = server, scratch.best[server]
            listing.servers[task] += 1
            used += 1
    return used


@kernel
def _on_one_server(
    site: Site, tasks: Tasks, task: int, ready: float, patience: float, room: Room
) -> tuple[int, float, float]:
    """Server, begin and length of the best place; of equals that with fewest GPUs free then."""
    best, best_begin, best_length, best_free, place = NEVER, 0.0, 0.0, 0, NOWHERE
    profile, gang = tasks.profile[task], tasks.gang[task]
    for server in range(len(room.stretches)):
        if tasks.fit[tasks.kind[task], server] < gang:
            continue
        length = tasks.work_s[task] * pace(
            site, profile, gang, site.server_type[server], gang, 1, 1
        )
        latest = ready + (best - ready - length) / (1.0 + patience)
        begin = earliest_s(room, server, gang, ready, length, latest)
        if begin == NEVER:
            continue
        score = begin + length + patience * (begin - ready)
        free = room.free[server, stretch_at(room, server, begin)]
        if score < best or (score == best and free < best_free):
            best, best_begin, best_length, best_free = score, begin, length, free
            place = server
    return place, best_begin, best_length


@kernel
def _on_several(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, ready: float, patience: float, beat: float, room: Room,
    scratch: Scratch,
) -> tuple[float, float]:  # fmt: skip
    """Begin and length of the best spread that beats `beat`, in `scratch.best`; else NEVER.

    A gang keeps to one type of GPU, unless no type has enough.
    """
    found, found_length, enough = NEVER, 0.0, False
    gang = tasks.gang[task]
    for kind in range(site.compute_s.shape[1] + 1):
        which = ANY if kind == site.compute_s.shape[1] else kind
        if which == ANY and enough:
            break
        total, largest = 0, 0
        for server in range(len(room.stretches)):
            fit = tasks.fit[tasks.kind[task], server]
            if fit > 0 and of_kind(which, site.server_type[server]):
                total += fit
                largest = max(largest, fit)
        if total < gang:
            continue
        enough = True
        servers = max(2, -(-gang // largest))
        least = _least_s(site, tasks, task, which, min(gang - 1, largest), servers)
        begin, length = spread_place(
            site, tasks, task, which, ready, least, patience, beat, room, scratch
        )
        if begin != NEVER:
            score = begin + length + patience * (begin - ready)
            if score < beat:
                beat, found, found_length = score, begin, length
                for server in range(len(scratch.best)):
                    scratch.best[server] = scratch.given[server]
    return found, found_length


@kernel
def _least_s(site: Site, tasks: Tasks, task: int, which: int, most: int, servers: int) -> float:
    """What a spread takes at least; over ANY type no less than on the fastest."""
    least = NEVER
    for server in range(len(site.server_type)):
        kind = site.server_type[server]
        if of_kind(which, kind) and tasks.fit[tasks.kind[task], server] > 0:
            profile, gang = tasks.profile[task], tasks.gang[task]
            least = min(least, pace(site, profile, gang, kind, most, servers, 1))
    length_s: float = tasks.work_s[task] * least
    return length_s


@kernel
def hold_running(
    tasks: Tasks, task_of: IntArray, gpu_server: IntArray, tenants: IntArray, tenant: IntArray,
    room: Room,
) -> None:  # fmt: skip
    """Take every GPU that has tenants until the last of them ends; `task_of` (J,) job's task."""
    for gpu in range(len(gpu_server)):
        until = 0.0
        for k in range(tenants[gpu]):
            until = max(until, tasks.end_s[task_of[tenant[gpu, k]]])
        if until > 0.0 and least_free(room, gpu_server[gpu], 0.0, until) > 0:
            take(room, gpu_server[gpu], 1, 0.0, until)
