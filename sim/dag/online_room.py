"""How many GPUs of each server are free from now on: steps in time, and gaps in them.

GPUs of a server are alike, so numbers are enough: tasks that at no time want more GPUs than there
are can be given GPUs of their own from start to end.
"""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel

NEVER = np.inf


class Room(NamedTuple):
    """Stretch k of server s is from `at_s[s, k]` to the next one's begin, the last has no end."""

    at_s: FloatArray  # (S, K) ascending from 0, which is now
    free: IntArray  # (S, K) GPUs
    stretches: IntArray  # (S,) how many


def new_room(capacity: IntArray, most: int) -> Room:
    """Servers of `capacity` (S,) GPUs that are free for ever; each can have `most` stretches."""
    shape = (len(capacity), most)
    room = Room(np.empty(shape), np.empty(shape, dtype=np.int64), np.ones(len(capacity), np.int64))
    room.at_s[:, 0] = 0.0
    room.free[:, 0] = capacity
    return room


@kernel
def stretch_at(room: Room, server: int, time_s: float) -> int:
    """The stretch of a server that holds `time_s` (0 or later)."""
    low, high = 0, room.stretches[server]
    while high - low > 1:
        middle = (low + high) // 2
        if room.at_s[server, middle] <= time_s:
            low = middle
        else:
            high = middle
    return low


@kernel
def earliest_s(
    room: Room, server: int, gang: int, ready_s: float, length_s: float, latest_s: float
) -> float:
    """When `gang` GPUs of a server are first free for `length_s`; NEVER if after `latest_s`."""
    begin, last = ready_s, room.stretches[server] - 1
    for k in range(stretch_at(room, server, ready_s), last + 1):
        if room.free[server, k] < gang:
            begin = NEVER if k == last else room.at_s[server, k + 1]
            if begin > latest_s:
                return NEVER
        elif k == last or room.at_s[server, k + 1] - begin >= length_s:
            return begin
    return begin


@kernel
def least_free(room: Room, server: int, begin_s: float, end_s: float) -> int:
    """GPUs that are free all the time."""
    k = stretch_at(room, server, begin_s)
    least: int = room.free[server, k]
    k += 1
    while k < room.stretches[server] and room.at_s[server, k] < end_s:
        least = min(least, room.free[server, k])
        k += 1
    return least


@kernel
def _cut(room: Room, server: int, time_s: float) -> int:
    """The stretch that begins at `time_s`, made if there is none."""
    k = stretch_at(room, server, time_s)
    if room.at_s[server, k] == time_s:
        return k
    for later in range(room.stretches[server], k + 1, -1):
        room.at_s[server, later] = room.at_s[server, later - 1]
        room.free[server, later] = room.free[server, later - 1]
    room.at_s[server, k + 1] = time_s
    room.free[server, k + 1] = room.free[server, k]
    room.stretches[server] += 1
    return k + 1


@kernel
def take(room: Room, server: int, gpus: int, begin_s: float, end_s: float) -> None:
    """Give away `gpus` of a server; nothing where it ends as it begins."""
    if end_s <= begin_s:
        return
    first = _cut(room, server, begin_s)
    for k in range(first, _cut(room, server, end_s)):
        room.free[server, k] -= gpus
