"""Who has to make room for a job on a place, and what is weighed of that.

A place is compact: one server, or the fewest that hold the gang, outwards from the first. Only jobs
that have more predicted work left than the newcomer make room, and none that was started or
suspended at this decision, so suspensions of one decision end and nobody goes to and fro.
"""

import numpy as np

from sim.jit import kernel
from sim.kernel.allocation import workers_on
from sim.scoring.ahead import wait_difference, wait_here_s
from sim.scoring.room import (
    clear,
    could_run,
    fewest_servers,
    fill_outwards,
    left_s,
    limited,
    occupancy_of,
    placeable_now,
    pressure_of,
    workers_ever,
)
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfSuspension
from sim.times import HOUR_S

SCALE, RAN_UNIT_S = 2.5, 600.0
NEAR = 1_000_000  # more GPUs than a server has
# Where agents make room, once they have said for whom and in which partition: about what the
# learned weights of the linear score say.
ROOM_WORTH = {
    OfSuspension.WORK_RATIO: -1.1, OfSuspension.LEAST_RATIO: 5.8, OfSuspension.VICTIMS_LEFT: 0.2,
    OfSuspension.WASTE: -2.0, OfSuspension.HOMELESS: -1.9, OfSuspension.TIMES: -2.0,
    OfSuspension.RAN: 0.2,
}  # fmt: skip
_ROOM_AT = tuple(int(column) for column in ROOM_WORTH)
_ROOM_WORTH = tuple(ROOM_WORTH.values())


@kernel
def _is_victim(scratch: Scratch, job: int) -> bool:
    return bool(scratch.marked[job] == scratch.scalars[0].mark)


@kernel
def _least_left_s(scratch: Scratch, gpu: int, newcomer_s: float) -> float:
    """Least work left among the tenants of a GPU that are no victims yet.

    Returns:
        -1 where there are none, or one that may not be suspended for a job with `newcomer_s` left.
    """
    least_s, state = -1.0, scratch.state
    for k in range(state.gpu[gpu].tenants):  # all have to go: one that does not yield is enough
        job = state.tenant[gpu, k]
        if _is_victim(scratch, job):
            continue
        work_s = left_s(scratch, job)
        if scratch.touched[job] == scratch.scalars[0].decision or work_s <= newcomer_s:
            return -1.0
        least_s = work_s if least_s < 0.0 else min(least_s, work_s)
    return least_s


@kernel
def _room_without(scratch: Scratch, job: int, server: int) -> int:
    """Workers of `job` that a server could take on empty GPUs, were the victims gone."""
    state, where, empty = scratch.state, scratch.state.server[server], 0
    cpu_milli, memory_mib = where.cpu_free_milli, where.memory_free_mib
    for gpu in range(where.first_gpu, where.last_gpu):  # anew: victims change from call to call
        staying = 0
        for k in range(state.gpu[gpu].tenants):  # each worker of a gang gives back its own part
            tenant = state.tenant[gpu, k]
            if _is_victim(scratch, tenant):
                cpu_milli += scratch.job[tenant].cpu_milli
                memory_mib += scratch.job[tenant].memory_mib
            else:
                staying += 1
        empty += staying == 0
    return int(min(empty, limited(scratch, job, server, cpu_milli, memory_mib)))


@kernel
def _add_victims(scratch: Scratch, gpu: int) -> None:
    scalars, state = scratch.scalars[0], scratch.state
    for k in range(state.gpu[gpu].tenants):  # some may be victims already, by another of their GPUs
        job = state.tenant[gpu, k]
        if not _is_victim(scratch, job):
            scratch.marked[job] = scalars.mark
            scratch.victim[scalars.num_victims] = job
            scalars.num_victims += 1


@kernel
def _empty_server(scratch: Scratch, job: int, server: int, workers: int) -> bool:
    """Add victims until a server has room for so many workers: who has most left goes first."""
    where, newcomer_s = scratch.state.server[server], left_s(scratch, job)
    first = scratch.scalars[0].num_victims
    while _room_without(scratch, job, server) < workers:  # counted anew: gangs leave several GPUs
        best, most_s = -1, 0.0
        for gpu in range(where.first_gpu, where.last_gpu):  # ties go to the lower id
            least_s = _least_left_s(scratch, gpu, newcomer_s)
            if least_s > most_s:
                best, most_s = gpu, least_s
        if best < 0:
            return False
        _add_victims(scratch, best)
    _spare(scratch, job, server, workers, first)
    return True


@kernel
def _spare(scratch: Scratch, job: int, server: int, workers: int, first: int) -> None:
    """Let victims from number `first` on stay if there is room without their going."""
    scalars, at = scratch.scalars[0], first
    while at < scalars.num_victims:  # no range: the last victim takes a spared one's place
        spared = scratch.victim[at]
        scratch.marked[spared] = 0
        if _room_without(scratch, job, server) < workers:
            scratch.marked[spared] = scalars.mark
            at += 1
        else:
            _drop_victim(scratch, at)


@kernel
def _drop_victim(scratch: Scratch, at: int) -> None:
    scalars = scratch.scalars[0]
    scalars.num_victims -= 1
    scratch.victim[at] = scratch.victim[scalars.num_victims]


@kernel
def _spare_apart(scratch: Scratch) -> None:
    """Let victims stay that have no GPU on a server that the gang takes.

    With demands the gang may be filled otherwise than the room was made.
    """
    at = 0
    while at < scratch.scalars[0].num_victims:  # no range, as above
        victim, apart = scratch.victim[at], True
        row = scratch.state.job[victim]
        for place in range(row.first, row.first + row.held):  # one GPU there is enough
            server = scratch.state.gpu[scratch.state.placed[place]].server
            apart = apart and scratch.server[server].taken == 0
        if apart:
            scratch.marked[victim] = 0
            _drop_victim(scratch, at)
        else:
            at += 1


@kernel
def place_in_room(scratch: Scratch, job: int, m: int) -> None:
    """Fill `chosen` for the start of `job` in the room that `make_room` found, its victims gone."""
    state, done = scratch.state, 0
    for i in range(state.partition[m].first_own, state.partition[m].last_own):  # filling reads all
        server = state.own[i]
        away = state.server[server].closed > 0
        scratch.server[server].alone = 0 if away else _room_without(scratch, job, server)
    scratch.here[0].shared = 0
    fill_outwards(scratch, job, m)
    for i in range(scratch.scalars[0].num_used):  # as filled: worker i runs on the i-th GPU
        where, left = state.server[scratch.used[i]], scratch.server[scratch.used[i]].taken
        for gpu in range(where.first_gpu, where.last_gpu):  # empty ones are alike: the lowest ids
            if left > 0 and _falls_empty(scratch, gpu):
                scratch.chosen[done] = gpu
                done += 1
                left -= 1
    _spare_apart(scratch)


@kernel
def _falls_empty(scratch: Scratch, gpu: int) -> bool:
    """Whether a GPU has no tenant but victims."""
    for k in range(scratch.state.gpu[gpu].tenants):
        if not _is_victim(scratch, scratch.state.tenant[gpu, k]):
            return False
    return True


@kernel
def _could_hold(scratch: Scratch, job: int, server: int) -> int:
    """Workers of `job` that a server could take if it were empty; 0 while it is away."""
    return 0 if scratch.state.server[server].closed > 0 else workers_ever(scratch, job, server)


@kernel
def _could_empty(scratch: Scratch, server: int, newcomer_s: float) -> int:
    """GPUs of a server that are empty, or whose tenants are all predicted to stay longer."""
    state, free_s, count = scratch.state, scratch.ahead.free_s, 0
    for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
        count += state.gpu[gpu].tenants == 0 or free_s[gpu] > newcomer_s
    return count


@kernel
def _next_server(scratch: Scratch, job: int, m: int, left: int) -> int:
    """The next server of a larger gang: in the first one's rack if possible, the emptiest."""
    state, rack = scratch.state, scratch.state.server[scratch.used[0]].rack
    newcomer_s, best, best_key = left_s(scratch, job), -1, -1
    for i in range(state.partition[m].first_own, state.partition[m].last_own):  # ties: the lower
        server = state.own[i]
        taken, workers = scratch.server[server].taken, min(left, _could_hold(scratch, job, server))
        if taken > 0 or workers == 0 or _could_empty(scratch, server, newcomer_s) < workers:
            continue
        key = state.free_gpus.usable[server] + (NEAR if state.server[server].rack == rack else 0)
        if key > best_key:
            best, best_key = server, key
    return best


@kernel
def make_room(scratch: Scratch, job: int, m: int) -> bool:
    """Fill `victim`, and `used` and `taken`, for the compact place outwards from `here.server`.

    Returns:
        False where there is none in partition `m`, or nobody would have to go.
    """
    scalars, server, left = scratch.scalars[0], scratch.here[0].server, scratch.job[job].gang
    most = fewest_servers(scratch, job, m)
    clear(scratch)
    scalars.mark += 1
    scalars.num_victims = 0
    while left > 0:  # ends early where the place would not be compact
        workers = min(left, _could_hold(scratch, job, server)) if server >= 0 else 0
        if workers == 0 or scalars.num_used == most:
            return False
        if scalars.num_used + 1 == most and workers < left:
            return False
        if not _empty_server(scratch, job, server, workers):
            return False
        scratch.server[server].taken = workers
        scratch.used[scalars.num_used] = server
        scalars.num_used += 1
        left -= workers
        if left > 0:
            server = _next_server(scratch, job, m, left)
    return bool(scalars.num_victims > 0)


@kernel
def _fits_elsewhere(scratch: Scratch, job: int, home: int) -> bool:
    """Whether a victim of partition `home` has a compact place now that the newcomer leaves it.

    Larger gangs than a server: by the count of wholly empty ones.
    """
    gang, scalars, state = scratch.job[job].gang, scratch.scalars[0], scratch.state
    for m in range(len(scratch.partition)):  # one place is enough, wherever it is
        if m != home:
            may = state.job[job].forwards < scalars.max_forwards and could_run(scratch, job, m)
            if may and placeable_now(scratch, job, m):
                return True
        elif gang > scratch.partition[m].largest:
            if placeable_now(scratch, job, m):
                return True
        else:
            # one by one: the newcomer takes some
            for i in range(state.partition[m].first_own, state.partition[m].last_own):
                server = state.own[i]
                room = min(
                    state.free_gpus.usable[server],
                    workers_on(state, scratch.job[job], server, False),
                )
                if scratch.server[server].taken == 0 and room >= gang:
                    return True
    return False


@kernel
def weigh_suspension(scratch: Scratch, job: int, home: int, m: int) -> None:
    """Fill `suspension` for what `make_room` found for `job`, of partition `home`, in `m`."""
    x, scalars, job_s, gang = (
        scratch.suspension, scratch.scalars[0], left_s(scratch, job), scratch.job[job].gang,
    )  # fmt: skip
    freed, homeless, times, work_s = 0, 0, 0, 0.0
    least_s, ran_s, now_s = np.inf, np.inf, scratch.state.world[0].now_s
    for k in range(scalars.num_victims):  # only now: of those found first, some were spared
        victim = scratch.victim[k]
        row, size = scratch.state.job[victim], scratch.job[victim].gang
        victim_s = left_s(scratch, victim)
        freed += size
        work_s += victim_s * size
        least_s = min(least_s, victim_s)
        ran_s = min(ran_s, max(now_s - row.started_s, 0.0))
        times = max(times, row.preemptions)
        if not _fits_elsewhere(scratch, victim, m):
            homeless += size
    empty = 0
    for i in range(scalars.num_used):  # what was empty before may be left over, too
        empty += scratch.state.free_gpus.usable[scratch.used[i]]
    wait_s = wait_here_s(scratch.ahead, gang, home)
    x[OfSuspension.WORK_RATIO] = np.log(work_s / (job_s * gang)) / SCALE
    x[OfSuspension.LEAST_RATIO] = np.log(least_s / job_s) / SCALE
    x[OfSuspension.VICTIMS_LEFT] = np.log(work_s / freed / HOUR_S) / SCALE
    x[OfSuspension.WASTE] = (freed + empty - gang) / scratch.partition[m].largest
    x[OfSuspension.HOMELESS] = homeless / freed
    x[OfSuspension.TIMES] = np.log1p(times)
    x[OfSuspension.RAN] = np.log1p(ran_s / RAN_UNIT_S) / SCALE
    x[OfSuspension.WAIT] = wait_difference(wait_s, job_s)
    x[OfSuspension.ELSEWHERE] = home != m
    x[OfSuspension.OCCUPANCY] = occupancy_of(scratch, m)
    x[OfSuspension.PRESSURE] = pressure_of(scratch, m)


@kernel
def may_make_room(scratch: Scratch, job: int, home: int, m: int, may_go: bool) -> bool:
    """Whether running jobs of `m` may be suspended for a waiting one of `home`.

    Not where it has a compact place without that. `may_go`: whether it may be forwarded.
    """
    if placeable_now(scratch, job, home):
        return False
    return m == home or (
        may_go and could_run(scratch, job, m) and not placeable_now(scratch, job, m)
    )


@kernel
def next_room(scratch: Scratch, job: int, m: int, first: int) -> int:
    """From place `first` on among the servers of `m`, the first where `make_room` finds a place.

    Returns:
        Its place among the partition's servers, or -1: there is none.
    """
    part, newcomer_s = scratch.state.partition[m], left_s(scratch, job)
    least = min(scratch.job[job].gang, scratch.partition[m].largest)
    for i in range(first, part.last_own - part.first_own):  # `first`: behind those already asked
        server = scratch.state.own[part.first_own + i]
        scratch.here[0].server = server
        # most servers fail the first, which is quick
        if _could_empty(scratch, server, newcomer_s) >= least and make_room(scratch, job, m):
            return i
    return -1


@kernel
def best_room(scratch: Scratch, job: int, home: int, m: int) -> int:
    """The server of `m` from which room is best made for a job of `home`, by ROOM_WORTH.

    `suspension` and the placement at hand are that server's.

    Returns:
        -1 where there is none.
    """
    best, best_worth = -1, -np.inf
    i = next_room(scratch, job, m, 0)
    while i >= 0:  # to the last: worth does not follow the order of servers
        weigh_suspension(scratch, job, home, m)
        worth = 0.0
        for k in range(len(_ROOM_AT)):  # the other columns are alike for all places in `m`
            worth += _ROOM_WORTH[k] * scratch.suspension[_ROOM_AT[k]]
        if worth > best_worth:
            best, best_worth = scratch.here[0].server, worth
        i = next_room(scratch, job, m, i + 1)
    if best >= 0:
        scratch.here[0].server = best
        make_room(scratch, job, m)
        weigh_suspension(scratch, job, home, m)
        scratch.suspension[OfSuspension.LEGAL] = 1.0
    return best
