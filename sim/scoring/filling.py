"""The placement that (job, server, shared or not) stands for: outwards from the server."""

from sim.arrays import IntArray
from sim.jit import kernel
from sim.physics.slowing import NO_COST
from sim.scoring.room import count_usable
from sim.scoring.scratch import Scratch

NEAR, FINISHES = 2_000_000, 1_000_000  # more than any server has GPUs


@kernel
def _usable(scratch: Scratch, server: int, shared: int) -> int:
    return int(scratch.server[server].joined if shared != 0 else scratch.server[server].alone)


@kernel
def _next_server(scratch: Scratch, m: int, left: int) -> int:
    """The nearest next server: same rack first; the tightest that finishes, else the roomiest."""
    shared, state = scratch.here[0].shared, scratch.state
    rack = state.server[scratch.used[0]].rack
    best, best_key = -1, -1
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        server = state.own[i]
        count = _usable(scratch, server, shared)
        if count == 0 or scratch.server[server].taken > 0:
            continue
        key = FINISHES - count if count >= left else count
        key += NEAR if state.server[server].rack == rack else 0
        if key > best_key:
            best, best_key = server, key
    return best


@kernel
def fill_outwards(scratch: Scratch, job: int, m: int) -> bool:
    """Fill `used` and `taken` for `here`, whose job `count_usable` has counted and found room for.

    Workers that have their place already (`begin_gang`) are not among them.

    Returns:
        False where it is no candidate: its server has nothing usable, or it is to share and would
        find only empty GPUs.
    """
    here, game = scratch.here[0], scratch.game[0]
    clear(scratch)
    if _usable(scratch, here.server, here.shared) == 0:
        return False
    left, server, shares = scratch.job[job].gang - game.num_placed, here.server, False
    while left > 0:
        where = scratch.server[server]
        where.taken = min(left, _usable(scratch, server, here.shared))
        scratch.used[game.num_used] = server
        game.num_used += 1
        left -= where.taken
        shares = shares or where.taken > where.alone
        if left > 0:
            server = _next_server(scratch, m, left)
    return shares or here.shared == 0 or game.num_placed > 0


@kernel
def clear(scratch: Scratch) -> None:
    """Forget the placement at hand."""
    for i in range(scratch.game[0].num_used):
        scratch.server[scratch.used[i]].taken = 0
    scratch.game[0].num_used = 0


@kernel
def seat(scratch: Scratch) -> None:
    """Fill `seats` with GPUs of the placement at hand: empty ones first, then the cheapest.

    Workers that have their place already come before all others.
    """
    done, shared, gpus = 0, scratch.here[0].shared, scratch.state.gpu
    for i in range(scratch.game[0].num_placed):
        scratch.seats[done] = scratch.placed[i]
        done += 1
    for i in range(scratch.game[0].num_used):
        where, left = scratch.state.server[scratch.used[i]], scratch.server[scratch.used[i]].taken
        for gpu in range(where.first_gpu, where.last_gpu):
            if left > 0 and gpus[gpu].tenants == 0 and scratch.gpu[gpu].placed == 0:
                scratch.seats[done] = gpu
                done += 1
                left -= 1
        if shared == 0:
            continue
        floor, last = -1.0, -1  # costs and ids taken so far
        while left > 0:
            best, cost = -1, NO_COST
            for gpu in range(where.first_gpu, where.last_gpu):
                row = scratch.gpu[gpu]
                fresh = row.cost > floor or (row.cost == floor and gpu > last)
                fresh = fresh and gpus[gpu].tenants > 0 and row.placed == 0
                if fresh and row.cost < cost:
                    best, cost = gpu, row.cost
            scratch.seats[done] = best
            done += 1
            left -= 1
            floor, last = cost, best


@kernel
def occupy_seats(scratch: Scratch, gpus: IntArray) -> None:
    """Let `used` and `taken` be those of a placement on these GPUs."""
    clear(scratch)
    game = scratch.game[0]
    for gpu in gpus:
        server = scratch.state.gpu[gpu].server
        if scratch.server[server].taken == 0:
            scratch.used[game.num_used] = server
            game.num_used += 1
        scratch.server[server].taken += 1


@kernel
def place(scratch: Scratch, job: int, m: int, server: int, shared: int) -> None:
    """Fill `seats` for a start of `job` that is known to have room."""
    scratch.here[0].server = server
    scratch.here[0].shared = shared
    count_usable(scratch, job, m)
    fill_outwards(scratch, job, m)
    seat(scratch)
