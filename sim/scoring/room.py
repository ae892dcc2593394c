"""What a job has left, and where it has room: on a GPU, on a server, in a partition."""

import numpy as np

from sim.jit import kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.layout import QUEUED
from sim.kernel.rooms import usable_in
from sim.kernel.seats import sharing_cost, workers_now
from sim.physics.slowing import NO_COST
from sim.room_rules import workers_for
from sim.scoring.scratch import Scratch

ALONE, BESIDE = 2, 1  # answers of `count_usable`
LEAST_LEFT_S = 60.0  # a job that outlives its prediction counts as this far from its end
PLAIN_LEFT_S = 3600.0  # of every job where durations are not looked at


@kernel
def left_s(scratch: Scratch, job: int) -> float:
    """Predicted work left; the same for all who start where durations are not looked at."""
    game, done_s = scratch.game[0], scratch.state.job[job].seen_progress_s
    left = PLAIN_LEFT_S
    if game.use_durations != 0:
        left = max(scratch.job[job].estimate_s - done_s, LEAST_LEFT_S)
    return float(max(left, game.rest_share * done_s))


@kernel
def age_s(scratch: Scratch, job: int) -> float:
    """Seconds since it was submitted."""
    return float(max(scratch.state.world[0].now_s - scratch.job[job].submit_s, 0.0))


@kernel
def is_old(scratch: Scratch, job: int) -> bool:
    """Whether the job has waited so long that it must not be kept from a compact place."""
    now_s = scratch.state.world[0].now_s
    return bool(now_s >= scratch.job[job].submit_s + scratch.game[0].patience_s)


@kernel
def waits_in(scratch: Scratch, at: int, m: int) -> bool:
    """Whether the job of row `at` of `waiting` waits, in partition `m`."""
    row = scratch.state.job[scratch.waiting[at].job]
    return bool(row.partition == m and row.status == QUEUED)


@kernel
def limited(scratch: Scratch, job: int, server: int, cpu_milli: int, memory_mib: int) -> int:
    """Workers of `job` for which the server's GPUs and type, these cores and memory are enough."""
    row, where = scratch.job[job], scratch.state.server[server]
    size = where.last_gpu - where.first_gpu
    if row.picky == 0:
        return int(size)
    return workers_for(row, size, where.gpu_type, cpu_milli, memory_mib)


@kernel
def workers_ever(scratch: Scratch, job: int, server: int) -> int:
    """Workers of `job` that a server could take if it were empty, away or not."""
    where = scratch.state.server[server]
    return int(limited(scratch, job, server, where.cpu_milli, where.memory_mib))


@kernel
def most_workers(scratch: Scratch, job: int, m: int, away_too: bool) -> int:
    """Workers of `job` that partition `m` could take if it were empty."""
    total, state = 0, scratch.state
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        where = state.server[state.own[i]]
        if away_too or where.closed == 0:
            total += workers_ever(scratch, job, state.own[i])
    return total


@kernel
def cost_on(scratch: Scratch, job: int, gpu: int) -> float:
    """Predicted own slow-down x worst victim's on `gpu`; 0 if it is empty, NO_COST if full.

    Most jobs ask for whole GPUs, so the answer is the same until the GPU's tenants change.
    """
    there = scratch.state.gpu[gpu]
    if there.tenants == 0:
        return 0.0
    if scratch.job[job].gpu_milli != WHOLE_GPU_MILLI:
        return _cost_on(scratch, job, gpu)
    p = scratch.job[job].profile
    if scratch.costed_at[p, gpu] != there.version:
        scratch.cost[p, gpu] = _cost_on(scratch, job, gpu)
        scratch.costed_at[p, gpu] = there.version
    return float(scratch.cost[p, gpu])


@kernel
def _cost_on(scratch: Scratch, job: int, gpu: int) -> float:
    ask, belief, limit_milli = scratch.job[job], scratch.belief, scratch.game[0].limit_milli
    least_speed = 0.0  # how much a pair has to do together is for weights to say
    return sharing_cost(
        scratch.state,
        ask,
        gpu,
        belief.slowing,
        belief.feasible,
        scratch.crowd,
        limit_milli,
        least_speed,
    )


@kernel
def count_usable(scratch: Scratch, job: int, m: int) -> int:
    """Fill `alone` and `joined` of the partition's servers, and the costs of its GPUs.

    Both are without the GPUs of workers of the gang that have their place already.

    Returns:
        ALONE if the gang has room on empty GPUs, BESIDE if it has room beside others, else 0.
    """
    alone, joined, state = 0, 0, scratch.state
    pair = state.tenant.shape[1] > 1
    too_much = scratch.job[job].gpu_milli > scratch.game[0].limit_milli
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        server = state.own[i]
        real, where = state.server[server], scratch.server[server]
        most = 0 if too_much else workers_now(state, scratch.job[job], server)
        where.alone = min(state.rooms.usable[server], most)
        where.joined = where.alone
        if pair and most > where.alone:
            count = 0
            for gpu in range(real.first_gpu, real.last_gpu):
                cost = cost_on(scratch, job, gpu)
                scratch.gpu[gpu].cost = cost
                count += cost < NO_COST
            where.joined = min(count, most)
        alone += where.alone
        joined += where.joined
    for i in range(scratch.game[0].num_placed):
        where = scratch.server[state.gpu[scratch.placed[i]].server]
        where.alone -= 1
        where.joined -= 1
    gang = scratch.job[job].gang
    if alone >= gang:
        return ALONE
    return BESIDE if joined >= gang else 0


@kernel
def placeable_now(scratch: Scratch, job: int, m: int) -> bool:
    """Whether partition `m` has the gang's room on empty GPUs of the fewest servers it could use.

    Where a job asks for cores, memory or types, servers are counted with what is free of these.
    """
    part, gang = scratch.partition[m], scratch.job[job].gang
    if scratch.job[job].picky != 0:
        return _placeable_asking(scratch, job, m)
    whole = gang // part.largest if gang > part.largest else 0
    rest = gang - whole * part.largest
    if part.whole < whole:
        return False
    return bool(rest == 0 or part.whole > whole or part.roomiest >= rest)


@kernel
def _placeable_asking(scratch: Scratch, job: int, m: int) -> bool:
    now = _on_emptiest(scratch, job, m, fewest_servers(scratch, job, m))
    return bool(now >= scratch.job[job].gang)


@kernel
def fewest_servers(scratch: Scratch, job: int, m: int) -> int:
    """Servers of partition `m`, the roomiest first, that would hold the gang were they empty.

    All that are up and could take a worker, where the gang has no room on them.
    """
    state, largest, gang = scratch.state, scratch.partition[m].largest, scratch.job[job].gang
    if scratch.job[job].picky == 0:
        return int((gang + largest - 1) // largest)
    held, count = 0, 0
    for size in range(largest, 0, -1):
        for i in range(state.partition[m].first_own, state.partition[m].last_own):
            server = state.own[i]
            if held >= gang or state.server[server].closed > 0:
                continue
            if workers_ever(scratch, job, server) == size:
                held += size
                count += 1
    return count


@kernel
def _on_emptiest(scratch: Scratch, job: int, m: int, servers: int) -> int:
    """Workers that the `servers` emptiest servers of partition `m` can take on empty GPUs now."""
    state, held, count = scratch.state, 0, 0
    for size in range(scratch.partition[m].largest, 0, -1):
        for i in range(state.partition[m].first_own, state.partition[m].last_own):
            server = state.own[i]
            now = min(state.rooms.usable[server], workers_now(state, scratch.job[job], server))
            if now == size and count < servers:
                held += size
                count += 1
    return held


@kernel
def could_run(scratch: Scratch, job: int, m: int) -> bool:
    """Whether partition `m`, were it empty, could run `job`."""
    if scratch.job[job].picky == 0:
        return bool(scratch.partition[m].up >= scratch.job[job].gang)
    return bool(most_workers(scratch, job, m, False) >= scratch.job[job].gang)


@kernel
def capacity_of(scratch: Scratch, m: int) -> int:
    """GPUs that are up, at least 1: what shares are shares of."""
    return int(max(scratch.partition[m].up, 1))


@kernel
def load_of(scratch: Scratch, m: int) -> float:
    """GPUs wanted by waiting and running jobs, over those that are up."""
    return float(scratch.partition[m].wanted / capacity_of(scratch, m))


@kernel
def largest_gang_now(scratch: Scratch, m: int) -> int:
    """Most GPUs that a compact placement could have now."""
    part = scratch.partition[m]
    return int(part.whole * part.largest + part.roomiest)


@kernel
def occupancy_of(scratch: Scratch, m: int) -> float:
    """Share of the GPUs of partition `m` that have a tenant."""
    return float(1.0 - usable_in(scratch.state.rooms, m) / capacity_of(scratch, m))


@kernel
def pressure_of(scratch: Scratch, m: int) -> float:
    """ln(1 + GPUs that waiting jobs of partition `m` want, over those it has)."""
    return float(np.log1p(scratch.partition[m].waiting / capacity_of(scratch, m)))
