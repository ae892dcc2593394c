"""What a job has left, and where it has room: on a GPU, on a server, in a partition.

And the placement that (job, server, shared or not) stands for: outwards from the server.
"""

import numpy as np

from sim.arrays import IntArray
from sim.jit import kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.allocation import sharing_cost, workers_on
from sim.kernel.free_gpus import usable_in, workers_for
from sim.kernel.layout import QUEUED
from sim.physics.laws import NO_COST
from sim.scoring.scratch import Scratch

ALONE, BESIDE = 2, 1  # answers of `count_usable`
LEAST_LEFT_S = 60.0  # a job that outlives its prediction counts as this far from its end
PLAIN_LEFT_S = 3600.0  # of every job where durations are not looked at


@kernel
def left_s(scratch: Scratch, job: int) -> float:
    """Predicted work left; the same for all who start where durations are not looked at."""
    scalars, done_s = scratch.scalars[0], scratch.state.job[job].seen_progress_s
    left = PLAIN_LEFT_S
    if scalars.use_durations != 0:
        left = max(scratch.job[job].estimate_s - done_s, LEAST_LEFT_S)
    return float(max(left, min(scalars.rest_share * done_s, scalars.rest_most_s)))


@kernel
def age_s(scratch: Scratch, job: int) -> float:
    """Seconds since it was submitted."""
    return float(max(scratch.state.world[0].now_s - scratch.job[job].submit_s, 0.0))


@kernel
def is_old(scratch: Scratch, job: int) -> bool:
    """Whether the job has waited so long that it must not be kept from a compact place."""
    now_s = scratch.state.world[0].now_s
    return bool(now_s >= scratch.job[job].submit_s + scratch.scalars[0].patience_s)


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
    row = scratch.state.gpu[gpu]
    if row.tenants == 0:
        return 0.0
    if scratch.job[job].gpu_milli != WHOLE_GPU_MILLI:
        return _cost_on(scratch, job, gpu)
    p = scratch.job[job].profile
    if scratch.costed_at[p, gpu] != row.version:
        scratch.cost[p, gpu] = _cost_on(scratch, job, gpu)
        scratch.costed_at[p, gpu] = row.version
    return float(scratch.cost[p, gpu])


@kernel
def _cost_on(scratch: Scratch, job: int, gpu: int) -> float:
    ask, belief, limit_milli = scratch.job[job], scratch.belief, scratch.scalars[0].limit_milli
    least_speed = 0.0  # how much a pair has to do together is for weights to say
    return sharing_cost(
        scratch.state, ask, gpu, belief.slowing, belief.feasible, scratch.tenants, limit_milli,
        least_speed,
    )  # fmt: skip


@kernel
def count_usable(scratch: Scratch, job: int, m: int) -> int:
    """Fill `alone` and `joined` of the partition's servers, and the costs of its GPUs.

    Both are without the GPUs of workers of the gang that have their place already.

    Returns:
        ALONE if the gang has room on empty GPUs, BESIDE if it has room beside others, else 0.
    """
    alone, joined, state = 0, 0, scratch.state
    pair = state.tenant.shape[1] > 1
    too_much = scratch.job[job].gpu_milli > scratch.scalars[0].limit_milli
    # to the last, though the gang may fit before: filling reads them all
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        server = state.own[i]
        real, where = state.server[server], scratch.server[server]
        most = 0 if too_much else workers_on(state, scratch.job[job], server, False)
        where.alone = min(state.free_gpus.usable[server], most)
        where.joined = where.alone
        if pair and most > where.alone:
            count = 0
            for gpu in range(real.first_gpu, real.last_gpu):  # all: the cheapest will be chosen
                cost = cost_on(scratch, job, gpu)
                scratch.gpu[gpu].cost = cost
                count += cost < NO_COST
            where.joined = min(count, most)
        alone += where.alone
        joined += where.joined
    for i in range(scratch.scalars[0].num_placed):  # nobody runs on them yet, so they were counted
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
        return bool(_on_emptiest(scratch, job, m, fewest_servers(scratch, job, m)) >= gang)
    whole = gang // part.largest if gang > part.largest else 0
    rest = gang - whole * part.largest
    if part.whole < whole:
        return False
    return bool(rest == 0 or part.whole > whole or part.roomiest >= rest)


@kernel
def fewest_servers(scratch: Scratch, job: int, m: int) -> int:
    """Servers of partition `m`, the roomiest first, that would hold the gang were they empty.

    All that are up and could take a worker, where the gang has no room on them.
    """
    state, largest, gang = scratch.state, scratch.partition[m].largest, scratch.job[job].gang
    if scratch.job[job].picky == 0:
        return int((gang + largest - 1) // largest)
    held, count = 0, 0
    for size in range(largest, 0, -1):  # no sort: sizes are few
        for i in range(state.partition[m].first_own, state.partition[m].last_own):  # any of a size
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
    for size in range(scratch.partition[m].largest, 0, -1):  # no sort: counts are few
        for i in range(state.partition[m].first_own, state.partition[m].last_own):  # any of a count
            server = state.own[i]
            now = min(
                state.free_gpus.usable[server], workers_on(state, scratch.job[job], server, False)
            )
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
    return float(1.0 - usable_in(scratch.state.free_gpus, m) / capacity_of(scratch, m))


@kernel
def pressure_of(scratch: Scratch, m: int) -> float:
    """ln(1 + GPUs that waiting jobs of partition `m` want, over those it has)."""
    return float(np.log1p(scratch.partition[m].waiting / capacity_of(scratch, m)))


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
    for i in range(state.partition[m].first_own, state.partition[m].last_own):  # ties: the lower
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
    here, scalars = scratch.here[0], scratch.scalars[0]
    clear(scratch)
    if _usable(scratch, here.server, here.shared) == 0:
        return False
    left, server, shares = scratch.job[job].gang - scalars.num_placed, here.server, False
    while left > 0:  # one by one: the next depends on how many workers are left
        where = scratch.server[server]
        where.taken = min(left, _usable(scratch, server, here.shared))
        scratch.used[scalars.num_used] = server
        scalars.num_used += 1
        left -= where.taken
        shares = shares or where.taken > where.alone
        if left > 0:
            server = _next_server(scratch, m, left)
    return shares or here.shared == 0 or scalars.num_placed > 0


@kernel
def clear(scratch: Scratch) -> None:
    """Forget the placement at hand."""
    for i in range(scratch.scalars[0].num_used):
        scratch.server[scratch.used[i]].taken = 0
    scratch.scalars[0].num_used = 0


@kernel
def choose_gpus(scratch: Scratch) -> None:
    """Fill `chosen` with GPUs of the placement at hand: empty ones first, then the cheapest.

    Workers that have their place already come before all others.
    """
    done, shared, gpus = 0, scratch.here[0].shared, scratch.state.gpu
    for i in range(scratch.scalars[0].num_placed):  # first: the next worker's GPU comes after these
        scratch.chosen[done] = scratch.placed[i]
        done += 1
    for i in range(scratch.scalars[0].num_used):  # as filled: worker i runs on the i-th GPU
        where, left = scratch.state.server[scratch.used[i]], scratch.server[scratch.used[i]].taken
        for gpu in range(where.first_gpu, where.last_gpu):  # empty ones are alike: the lowest ids
            if left > 0 and gpus[gpu].tenants == 0 and scratch.gpu[gpu].placed == 0:
                scratch.chosen[done] = gpu
                done += 1
                left -= 1
        if shared == 0:
            continue
        if left > 0:
            _choose_cheapest(scratch, where.first_gpu, where.last_gpu, done, left)
            done += left


@kernel
def _choose_cheapest(scratch: Scratch, first_gpu: int, last_gpu: int, done: int, left: int) -> None:
    """Let `chosen` from `done` on be the `left` cheapest of a server that have tenants; then ids.

    In one pass: asking for the cheapest so many times took five times as long for a whole server.
    """
    chosen, gpus, count = scratch.chosen, scratch.gpu, 0
    for gpu in range(first_gpu, last_gpu):  # ascending, so of equals the lower id stands first
        cost = gpus[gpu].cost
        skip = scratch.state.gpu[gpu].tenants == 0 or gpus[gpu].placed != 0 or cost >= NO_COST
        if skip or (count == left and cost >= gpus[chosen[done + count - 1]].cost):
            continue
        count = min(count + 1, left)
        at = done + count - 1
        while at > done and gpus[chosen[at - 1]].cost > cost:  # few are wanted: insertion is cheap
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = gpu


@kernel
def count_taken(scratch: Scratch, gpus: IntArray) -> None:
    """Let `used` and `taken` be those of a placement on these GPUs."""
    clear(scratch)
    scalars = scratch.scalars[0]
    for gpu in gpus:
        server = scratch.state.gpu[gpu].server
        if scratch.server[server].taken == 0:
            scratch.used[scalars.num_used] = server
            scalars.num_used += 1
        scratch.server[server].taken += 1


@kernel
def place(scratch: Scratch, job: int, m: int, server: int, shared: int) -> None:
    """Fill `chosen` for a start of `job` that is known to have room."""
    scratch.here[0].server = server
    scratch.here[0].shared = shared
    count_usable(scratch, job, m)
    fill_outwards(scratch, job, m)
    choose_gpus(scratch)
