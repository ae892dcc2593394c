"""What a job has left, and where it has room: on a GPU, on a server, in a partition."""

import numpy as np

from sim.jit import kernel
from sim.kernel.layout import QUEUED
from sim.kernel.rooms import usable_in
from sim.kernel.seats import sharing_cost, workers_now
from sim.physics.slowing import NO_COST
from sim.room_rules import workers_for
from sim.scoring.desk import Desk
from sim.traits import WHOLE_GPU_MILLI

ALONE, BESIDE = 2, 1  # answers of `count_usable`
LEAST_LEFT_S = 60.0  # a job that outlives its prediction counts as this far from its end
PLAIN_LEFT_S = 3600.0  # of every job where durations are not looked at


@kernel
def left_s(desk: Desk, job: int) -> float:
    """Predicted work left; the same for all who start where durations are not looked at."""
    game, done_s = desk.game[0], desk.state.job[job].seen_progress_s
    left = PLAIN_LEFT_S
    if game.use_durations != 0:
        left = max(desk.job[job].estimate_s - done_s, LEAST_LEFT_S)
    return float(max(left, game.rest_share * done_s))


@kernel
def age_s(desk: Desk, job: int) -> float:
    """Seconds since it was submitted."""
    return float(max(desk.state.world[0].now_s - desk.job[job].submit_s, 0.0))


@kernel
def is_old(desk: Desk, job: int) -> bool:
    """Whether the job has waited so long that it must not be kept from a compact place."""
    now_s = desk.state.world[0].now_s
    return bool(now_s >= desk.job[job].submit_s + desk.game[0].patience_s)


@kernel
def waits_in(desk: Desk, at: int, m: int) -> bool:
    """Whether the job of row `at` of `waiting` waits, in partition `m`."""
    row = desk.state.job[desk.waiting[at].job]
    return bool(row.partition == m and row.status == QUEUED)


@kernel
def limited(desk: Desk, job: int, server: int, cpu_milli: int, memory_mib: int) -> int:
    """Workers of `job` for which the server's GPUs and type, these cores and memory are enough."""
    row, where = desk.job[job], desk.state.server[server]
    size = where.last_gpu - where.first_gpu
    if row.picky == 0:
        return int(size)
    return workers_for(row, size, where.gpu_type, cpu_milli, memory_mib)


@kernel
def workers_ever(desk: Desk, job: int, server: int) -> int:
    """Workers of `job` that a server could take if it were empty, away or not."""
    where = desk.state.server[server]
    return int(limited(desk, job, server, where.cpu_milli, where.memory_mib))


@kernel
def most_workers(desk: Desk, job: int, m: int, away_too: bool) -> int:
    """Workers of `job` that partition `m` could take if it were empty."""
    total, state = 0, desk.state
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        where = state.server[state.own[i]]
        if away_too or where.closed == 0:
            total += workers_ever(desk, job, state.own[i])
    return total


@kernel
def cost_on(desk: Desk, job: int, gpu: int) -> float:
    """Predicted own slow-down x worst victim's on `gpu`; 0 if it is empty, NO_COST if full.

    Most jobs ask for whole GPUs, so the answer is the same until the GPU's tenants change.
    """
    there = desk.state.gpu[gpu]
    if there.tenants == 0:
        return 0.0
    if desk.job[job].gpu_milli != WHOLE_GPU_MILLI:
        return _cost_on(desk, job, gpu)
    p = desk.job[job].profile
    if desk.costed_at[p, gpu] != there.version:
        desk.cost[p, gpu] = _cost_on(desk, job, gpu)
        desk.costed_at[p, gpu] = there.version
    return float(desk.cost[p, gpu])


@kernel
def _cost_on(desk: Desk, job: int, gpu: int) -> float:
    ask, belief, limit_milli = desk.job[job], desk.belief, desk.game[0].limit_milli
    least_speed = 0.0  # how much a pair has to do together is for weights to say
    return sharing_cost(
        desk.state, ask, gpu, belief.slowing, belief.feasible, desk.crowd, limit_milli, least_speed
    )


@kernel
def count_usable(desk: Desk, job: int, m: int) -> int:
    """Fill `alone` and `joined` of the partition's servers, and the costs of its GPUs.

    Both are without the GPUs of workers of the gang that have their place already.

    Returns:
        ALONE if the gang has room on empty GPUs, BESIDE if it has room beside others, else 0.
    """
    alone, joined, state = 0, 0, desk.state
    pair = state.tenant.shape[1] > 1
    too_much = desk.job[job].gpu_milli > desk.game[0].limit_milli
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        server = state.own[i]
        real, where = state.server[server], desk.server[server]
        most = 0 if too_much else workers_now(state, desk.job[job], server)
        where.alone = min(state.rooms.usable[server], most)
        where.joined = where.alone
        if pair and most > where.alone:
            count = 0
            for gpu in range(real.first_gpu, real.last_gpu):
                cost = cost_on(desk, job, gpu)
                desk.gpu[gpu].cost = cost
                count += cost < NO_COST
            where.joined = min(count, most)
        alone += where.alone
        joined += where.joined
    for i in range(desk.game[0].num_placed):
        where = desk.server[state.gpu[desk.placed[i]].server]
        where.alone -= 1
        where.joined -= 1
    gang = desk.job[job].gang
    if alone >= gang:
        return ALONE
    return BESIDE if joined >= gang else 0


@kernel
def placeable_now(desk: Desk, job: int, m: int) -> bool:
    """Whether partition `m` has the gang's room on empty GPUs of the fewest servers it could use.

    Where a job asks for cores, memory or types, servers are counted with what is free of these.
    """
    part, gang = desk.partition[m], desk.job[job].gang
    if desk.job[job].picky != 0:
        return _placeable_asking(desk, job, m)
    whole = gang // part.largest if gang > part.largest else 0
    rest = gang - whole * part.largest
    if part.whole < whole:
        return False
    return bool(rest == 0 or part.whole > whole or part.roomiest >= rest)


@kernel
def _placeable_asking(desk: Desk, job: int, m: int) -> bool:
    now = _on_emptiest(desk, job, m, fewest_servers(desk, job, m))
    return bool(now >= desk.job[job].gang)


@kernel
def fewest_servers(desk: Desk, job: int, m: int) -> int:
    """Servers of partition `m`, the roomiest first, that would hold the gang were they empty.

    All that are up and could take a worker, where the gang has no room on them.
    """
    state, largest, gang = desk.state, desk.partition[m].largest, desk.job[job].gang
    if desk.job[job].picky == 0:
        return int((gang + largest - 1) // largest)
    held, count = 0, 0
    for size in range(largest, 0, -1):
        for i in range(state.partition[m].first_own, state.partition[m].last_own):
            server = state.own[i]
            if held >= gang or state.server[server].closed > 0:
                continue
            if workers_ever(desk, job, server) == size:
                held += size
                count += 1
    return count


@kernel
def _on_emptiest(desk: Desk, job: int, m: int, servers: int) -> int:
    """Workers that the `servers` emptiest servers of partition `m` can take on empty GPUs now."""
    state, held, count = desk.state, 0, 0
    for size in range(desk.partition[m].largest, 0, -1):
        for i in range(state.partition[m].first_own, state.partition[m].last_own):
            server = state.own[i]
            now = min(state.rooms.usable[server], workers_now(state, desk.job[job], server))
            if now == size and count < servers:
                held += size
                count += 1
    return held


@kernel
def could_run(desk: Desk, job: int, m: int) -> bool:
    """Whether partition `m`, were it empty, could run `job`."""
    if desk.job[job].picky == 0:
        return bool(desk.partition[m].up >= desk.job[job].gang)
    return bool(most_workers(desk, job, m, False) >= desk.job[job].gang)


@kernel
def capacity_of(desk: Desk, m: int) -> int:
    """GPUs that are up, at least 1: what shares are shares of."""
    return int(max(desk.partition[m].up, 1))


@kernel
def load_of(desk: Desk, m: int) -> float:
    """GPUs wanted by waiting and running jobs, over those that are up."""
    return float(desk.partition[m].wanted / capacity_of(desk, m))


@kernel
def largest_gang_now(desk: Desk, m: int) -> int:
    """Most GPUs that a compact placement could have now."""
    part = desk.partition[m]
    return int(part.whole * part.largest + part.roomiest)


@kernel
def occupancy_of(desk: Desk, m: int) -> float:
    """Share of the GPUs of partition `m` that have a tenant."""
    return float(1.0 - usable_in(desk.state.rooms, m) / capacity_of(desk, m))


@kernel
def pressure_of(desk: Desk, m: int) -> float:
    """ln(1 + GPUs that waiting jobs of partition `m` want, over those it has)."""
    return float(np.log1p(desk.partition[m].waiting / capacity_of(desk, m)))
