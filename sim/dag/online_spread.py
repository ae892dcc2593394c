"""Places for gangs over several servers."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.dag.online_room import NEVER, Room, least_free, stretch_at
from sim.dag.online_tasks import Site, Tasks, pace
from sim.jit import kernel

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
def of_kind(wanted: int, kind: int) -> bool:
    """Whether a GPU type is the one wanted; any is where ANY is."""
    return wanted < 0 or wanted == kind


@kernel
def _free_all_along(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, kind: int, begin_s: float, end_s: float,
    room: Room, scratch: Scratch,
) -> int:  # fmt: skip
    """Fill `scratch.most`; returns its sum."""
    total = 0
    for server in range(len(scratch.most)):
        fit = tasks.fit[tasks.kind[task], server]
        if fit == 0 or not of_kind(kind, site.server_type[server]):
            scratch.most[server] = 0
            continue
        scratch.most[server] = min(fit, least_free(room, server, begin_s, end_s))
        total += scratch.most[server]
    return total


@kernel
def _length_on_fullest(site: Site, tasks: Tasks, task: int, scratch: Scratch) -> float:
    """Fill `scratch.given` from the servers that can give most; returns the time it takes there."""
    left, servers, most, slowest = tasks.gang[task], 0, 0, 0.0
    scratch.given[:] = 0
    scratch.racks[:] = 0
    while left > 0:
        pick = -1
        for server in range(len(scratch.most)):
            fresh = scratch.given[server] == 0 and scratch.most[server] > 0
            if fresh and (pick < 0 or scratch.most[server] > scratch.most[pick]):
                pick = server
        scratch.given[pick] = min(left, scratch.most[pick])
        left -= scratch.given[pick]
        servers += 1
        most = max(most, scratch.given[pick])
        scratch.racks[site.server_rack[pick]] = 1
    racks = scratch.racks.sum()
    for server in range(len(scratch.given)):
        if scratch.given[server] > 0:
            kind = site.server_type[server]
            profile, gang = tasks.profile[task], tasks.gang[task]
            slowest = max(slowest, pace(site, profile, gang, kind, most, servers, racks))
    length_s: float = tasks.work_s[task] * slowest
    return length_s


@kernel
def _next_change_s(room: Room, scratch: Scratch, time_s: float) -> float:
    """The first time after `time_s` at which some server's free GPUs change."""
    soonest = NEVER
    for server in range(len(scratch.most)):
        k = stretch_at(room, server, time_s) + 1
        if k < room.stretches[server]:
            soonest = min(soonest, room.at_s[server, k])
    return soonest


@kernel
def spread_place(  # noqa: PLR0917  (compiled)
    site: Site, tasks: Tasks, task: int, kind: int, ready_s: float, least_s: float,
    patience: float, beat_s: float, room: Room, scratch: Scratch,
) -> tuple[float, float]:  # fmt: skip
    """Begin and length of the first place over servers of one type, or of ANY; NEVER if none.

    Args:
        site: the cluster.
        tasks: all tasks.
        task: the one to place.
        kind: type of GPU, or ANY.
        ready_s: not before.
        least_s: what the task takes at least.
        patience: weight of waiting, as `list_tasks` has it.
        beat_s: end plus weighted wait that it has to beat; looks no further.
        room: what is free.
        scratch: scratch; `given` holds the place.
    """
    begin = ready_s
    while begin + least_s + patience * (begin - ready_s) < beat_s:
        length = least_s
        for _ in range(TRIES):
            total = _free_all_along(site, tasks, task, kind, begin, begin + length, room, scratch)
            if total < tasks.gang[task]:
                break
            takes = _length_on_fullest(site, tasks, task, scratch)
            if takes <= length:
                return begin, takes
            length = takes
        begin = _next_change_s(room, scratch, begin)
    return NEVER, 0.0
