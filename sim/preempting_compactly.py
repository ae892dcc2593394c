"""`PreemptiveScheduler.decide` in compiled code, for gangs that wait for the fewest servers.

The rule of `sim.placers.consolidated` where a GPU holds one job and every server is up. Whether it
finds a place depends on the gang alone, and one GPU more never takes a place away.
"""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel
from sim.placing.compactness import fewest_servers
from sim.placing.filling import fill_servers

NONE = -1


class Place(NamedTuple):
    """The cluster, and who holds what as the decision begins."""

    servers: IntArray  # (s,) owned, ascending
    size: IntArray  # (S,) GPUs of each
    first_gpu: IntArray  # (S + 1,)
    gpu_server: IntArray  # (G,)
    tenants: IntArray  # (G,) jobs on each GPU
    placed: IntArray  # GPUs of running job j: placed[slot[j]:slot[j] + held[j]]
    slot: IntArray  # (J,)
    held: IntArray  # (J,)


class Plan(NamedTuple):
    """Orders: start `job[i]` on `gpus[first[i]:first[i + 1]]`; stop `preempts`."""

    job: IntArray
    first: IntArray
    gpus: IntArray
    preempts: IntArray


class _Room(NamedTuple):
    """Empty GPUs as planned so far, and as tried."""

    tenants: IntArray  # (G,)
    usable: BoolArray  # (G,) empty
    per_server: IntArray  # (S,) empty GPUs of the servers owned


class _Wait(NamedTuple):
    """Jobs that wait, those preempted in this decision behind the others."""

    job: IntArray
    key: FloatArray
    waits: BoolArray  # neither started nor refused
    refused: BoolArray  # (G + 2,) gangs of this size; the last: of more than there are GPUs


@array_kernel
def _seat(place: Place, room: _Room, gpus: IntArray, change: int) -> None:
    """One tenant more (`change` 1) or less (-1) on `gpus`."""
    for gpu in gpus:
        before = room.tenants[gpu] == 0
        room.tenants[gpu] += change
        after = room.tenants[gpu] == 0
        room.usable[gpu] = after
        room.per_server[place.gpu_server[gpu]] += int(after) - int(before)


@array_kernel
def _gpus_of(place: Place, job: int) -> IntArray:
    return place.placed[place.slot[job] : place.slot[job] + place.held[job]]


@array_kernel
def _room_of(place: Place) -> _Room:
    usable = np.zeros(len(place.tenants), dtype=np.bool_)
    per_server = np.zeros(len(place.size), dtype=np.int64)
    for server in place.servers:
        for gpu in range(place.first_gpu[server], place.first_gpu[server + 1]):
            usable[gpu] = place.tenants[gpu] == 0
            per_server[server] += int(usable[gpu])
    return _Room(place.tenants.copy(), usable, per_server)


@array_kernel
def _servers(place: Place, room: _Room, gang: int) -> IntArray:
    """Servers to fill; none if the gang has no place."""
    return fewest_servers(place.servers, room.per_server, place.size, gang)


@array_kernel
def _gpus(place: Place, room: _Room, servers: IntArray, gang: int) -> IntArray:
    take = room.per_server[servers]
    return fill_servers(servers, take, place.first_gpu, room.usable, room.tenants, gang)


@array_kernel
def _release(place: Place, room: _Room, victim: int, change: int) -> None:
    """A victim's GPUs are free (-1), or it has them again (1)."""
    if victim != NONE:
        _seat(place, room, _gpus_of(place, victim), change)


@array_kernel
def _shift(place: Place, room: _Room, victims: IntArray, before: int, after: int) -> None:
    """Let the first `after` victims be without their GPUs, where the first `before` were."""
    for victim in victims[before:after]:
        _release(place, room, victim, -1)
    for victim in victims[after:before]:
        _release(place, room, victim, 1)


@array_kernel
def _push_aside(
    place: Place, room: _Room, victims: IntArray, eligible: int, gang: int
) -> tuple[IntArray, int]:
    """GPUs of a gang beside the fewest of `victims[:eligible]`, and how many those are.

    One victim more never takes a place away, so the fewest are found by halving. Jobs that have
    lost their GPUs already are NONE. No GPUs where all are too few; `room` is left as it was.
    """
    too_few, fewest = 0, eligible
    _shift(place, room, victims, 0, fewest)
    if len(_servers(place, room, gang)) == 0:
        _shift(place, room, victims, fewest, 0)
        return np.empty(0, dtype=np.int64), eligible
    released = fewest
    while fewest - too_few > 1:
        middle = (too_few + fewest) // 2
        _shift(place, room, victims, released, middle)
        released = middle
        if len(_servers(place, room, gang)) == 0:
            too_few = middle
        else:
            fewest = middle
    _shift(place, room, victims, released, fewest)
    gpus = _gpus(place, room, _servers(place, room, gang), gang)
    _shift(place, room, victims, fewest, 0)
    return gpus, fewest


@array_kernel
def _next(wait: _Wait, count: int) -> int:
    """Who is served next: the least key, the lower row on ties; NONE if nobody is left."""
    best = NONE
    for at in range(count):
        if not wait.waits[at]:
            continue
        ties = best != NONE and wait.key[at] == wait.key[best] and wait.job[at] < wait.job[best]
        if best == NONE or wait.key[at] < wait.key[best] or ties:
            best = at
    return best


@array_kernel
def _holds_any(place: Place, job: int, wanted: BoolArray) -> bool:
    return bool(wanted[_gpus_of(place, job)].any())


@array_kernel
def _is_refused(wait: _Wait, gang: int) -> bool:
    return bool(wait.refused[min(gang, len(wait.refused) - 1)])


@array_kernel
def _refuse(wait: _Wait, count: int, gang: IntArray, size: int) -> None:
    """Nobody with as large a gang is served any more."""
    wait.refused[min(size, len(wait.refused) - 1)] = True
    for at in range(count):
        wait.waits[at] &= not _is_refused(wait, gang[wait.job[at]])


@array_kernel
def _lose(  # noqa: PLR0917 - arrays go by position into compiled code
    place: Place, room: _Room, wait: _Wait, behind: int, gang: IntArray, victims: IntArray,
    keys: FloatArray, gpus: IntArray, losers: IntArray,
) -> int:  # fmt: skip
    """Preempt those of `victims` who hold any of `gpus`: they queue again, from `behind` on."""
    wanted = np.zeros(len(room.tenants), dtype=np.bool_)
    wanted[gpus] = True
    lost = 0
    for rank, victim in enumerate(victims):
        if victim == NONE or not _holds_any(place, victim, wanted):
            continue
        _release(place, room, victim, -1)
        victims[rank], losers[lost] = NONE, victim
        wait.job[behind + lost], wait.key[behind + lost] = victim, keys[rank]
        wait.waits[behind + lost] = not _is_refused(wait, gang[victim])
        lost += 1
    return lost


@array_kernel
def _queue_of(queued: IntArray, keys: FloatArray, most: int, num_gpus: int) -> _Wait:
    """The queue, with seats for `most`."""
    refused = np.zeros(num_gpus + 2, dtype=np.bool_)
    wait = _Wait(
        np.empty(most, dtype=np.int64), np.empty(most), np.zeros(most, dtype=np.bool_), refused
    )
    wait.job[: len(queued)] = queued
    wait.key[: len(queued)] = keys
    wait.waits[: len(queued)] = True
    return wait


@array_kernel
def plan_compactly(
    place: Place, gang: IntArray, queued: IntArray, running: IntArray, keys: FloatArray
) -> Plan:
    """Serve waiting jobs by key, preempting where that lets one in.

    Args:
        place: the cluster.
        gang: (J,) GPUs that each job asks for.
        queued: (q,) waiting jobs.
        running: (r,) running jobs, ascending.
        keys: (r + q,) of the running, then of the waiting; smaller comes first.
    """
    ranked = np.argsort(keys[: len(running)], kind="mergesort")[::-1]
    victims, victim_key = running[ranked], keys[ranked]  # who gives way first, first
    waiting, most = len(queued), len(queued) + len(running)
    room = _room_of(place)
    wait = _queue_of(queued, keys[len(running) :], most, len(room.tenants))
    job, first = np.empty(most, dtype=np.int64), np.zeros(most + 1, dtype=np.int64)
    gpus = np.empty(len(room.tenants), dtype=np.int64)
    preempts, starts, lost = np.empty(len(running), dtype=np.int64), 0, 0
    while True:
        at = _next(wait, waiting)
        if at == NONE:
            break
        this, key, size, fewest = wait.job[at], wait.key[at], gang[wait.job[at]], 0
        servers = _servers(place, room, size)
        if len(servers) > 0:
            chosen = _gpus(place, room, servers, size)
        else:
            eligible = np.searchsorted(-victim_key, -key)
            chosen, fewest = _push_aside(place, room, victims, eligible, size)
        if len(chosen) == 0:  # nor has any other gang of that size, since it comes later
            _refuse(wait, waiting, gang, size)
            continue
        losers = _lose(
            place, room, wait, waiting, gang, victims[:fewest], victim_key, chosen, preempts[lost:]
        )
        lost, waiting = lost + losers, waiting + losers
        _seat(place, room, chosen, 1)
        wait.waits[at] = False
        job[starts], first[starts + 1] = this, first[starts] + size
        gpus[first[starts] : first[starts + 1]] = chosen
        starts += 1
    return Plan(job[:starts], first[: starts + 1], gpus[: first[starts]], preempts[:lost])
