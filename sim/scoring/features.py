"""Features of jobs, GPUs, servers, partitions, forwards and placements.

Those of a placement: spread, slow-downs of itself and of neighbours, what it holds up.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.kernel.allocation import gather_tenants
from sim.kernel.free_gpus import usable_in
from sim.physics.laws import Comm, Spread, busy_s, comm_of, excess_by, hit_of, quiet_s, slow_in
from sim.scoring.ahead import (
    compact_in_s,
    effects_elsewhere,
    holds_up,
    prolongs,
    wait_difference,
    wait_here_s,
    wait_over_loss,
)
from sim.scoring.room import (
    age_s,
    capacity_of,
    choose_gpus,
    count_taken,
    is_old,
    largest_gang_now,
    left_s,
    load_of,
    placeable_now,
    pressure_of,
)
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfContext, OfForward, OfGpu, OfJob, OfPair, OfPeer, OfServer
from sim.times import HOUR_S


@kernel
def compute_s_of(scratch: Scratch, p: int) -> float:
    """Compute seconds of profile `p` on the slowest server of the placement at hand, alone."""
    slowest_s = 0.0
    for i in range(scratch.scalars[0].num_used):
        gpu_type = scratch.state.server[scratch.used[i]].type
        slowest_s = max(slowest_s, scratch.belief.compute_s[p, gpu_type])
    return slowest_s


@kernel
def comm_here(scratch: Scratch, p: int) -> Comm:
    """Communication of profile `p` at the placement at hand, itself counted on links."""
    scalars, state = scratch.scalars[0], scratch.state
    scalars.stamp += 1
    most, racks, nic, uplink = 0, 0, 0, 0
    for i in range(scalars.num_used):  # in one pass, in which the stamp lets a rack count once
        where = state.server[scratch.used[i]]
        most, nic = max(most, scratch.server[scratch.used[i]].taken), max(nic, where.nic_jobs)
        uplink = max(uplink, state.rack[where.rack].uplink_jobs)
        racks += scratch.rack_stamp[where.rack] != scalars.stamp
        scratch.rack_stamp[where.rack] = scalars.stamp
    spread = Spread(most, scalars.num_used, racks, nic + 1, uplink + 1)
    return comm_of(scratch.belief.network, p, spread)


@kernel
def weigh_placement(scratch: Scratch, job: int, m: int) -> float:
    """Fill `pair` for the placement at hand; all but `legal` and `compact`.

    `spread`, `contention` and `own_slowdown` add up to the logarithm of the predicted step over
    `reference_step_s`; the kernel's rate (`sim.kernel.rates`) is its inverse where the prediction
    is right. Columns that look ahead stay as they are unless `scalars.look_ahead`.

    Returns:
        `spread` and `contention` in one.
    """
    row, x, scalars, shared = (
        scratch.job[job], scratch.pair, scratch.scalars[0], scratch.here[0].shared != 0,
    )  # fmt: skip
    if shared or scalars.look_ahead != 0 or scalars.num_placed > 0:
        choose_gpus(scratch)
    if scalars.num_placed > 0:
        count_taken(scratch, scratch.chosen[: row.gang])
    compute_s, comm = compute_s_of(scratch, row.profile), comm_here(scratch, row.profile)
    alone_s, step_s = compute_s + quiet_s(comm), compute_s + busy_s(comm)
    spread = np.log(step_s / row.reference_step_s)
    x[OfPair.SPREAD] = np.log(alone_s / row.reference_step_s)
    x[OfPair.CONTENTION] = np.log(step_s / alone_s)
    x[OfPair.OWN_SLOWDOWN] = 0.0
    x[OfPair.WORST_VICTIM] = 0.0
    x[OfPair.VICTIMS_DELAY] = 0.0
    x[OfPair.SHARED] = 0.0
    x[OfPair.SERVERS] = scalars.num_used / 8.0
    x[OfPair.FRAGMENTS] = _empty_left(scratch) / scratch.partition[m].largest
    if shared:
        _weigh_neighbours(scratch, job, compute_s, busy_s(comm))
    if scalars.look_ahead != 0:
        _weigh_ahead(scratch, job, m, spread + x[OfPair.OWN_SLOWDOWN])
    return float(spread)


@kernel
def _empty_left(scratch: Scratch) -> int:
    """Empty GPUs left over on the servers of the placement at hand."""
    left = 0
    for i in range(scratch.scalars[0].num_used):
        server = scratch.used[i]
        left += max(scratch.state.free_gpus.usable[server] - scratch.server[server].taken, 0)
    return int(left)


@kernel
def _weigh_neighbours(scratch: Scratch, job: int, compute_s: float, comm_s: float) -> None:
    """Own slow-down is that of the slowest worker.

    Victims' delay is what the victims are held up while this job runs beside them, over its own
    work; a victim that shares several GPUs counts once a GPU with 1 / its gang of its delay.
    """
    row, x, state = scratch.job[job], scratch.pair, scratch.state
    worst_s, victim, delay_s, shared = 0.0, 1.0, 0.0, 0
    mine_s, lone, lone_type, lost_s = left_s(scratch, job), -1, -1, 0.0
    for i in range(row.gang):  # any may have the slowest worker or the worst victim
        gpu = scratch.chosen[i]
        gpu_type = state.server[state.gpu[gpu].server].type
        if state.gpu[gpu].tenants == 1 and state.tenant[gpu, 0] == lone and gpu_type == lone_type:
            shared += 1  # beside the same gang as on the GPU before, which is often
            delay_s += lost_s
            continue
        last = gather_tenants(state, row, gpu, scratch.tenants)
        shared += last > 0
        own = slow_in(scratch.belief.slowing, gpu_type, scratch.tenants, last + 1, last)
        for k in range(last):  # all but the newcomer, who stands last
            beside = state.tenant[gpu, k]
            hit = hit_of(scratch.belief.slowing, gpu_type, scratch.tenants, last + 1, k)
            victim = max(victim, hit)
            held_up_s = min(left_s(scratch, beside), mine_s)
            lost_s = (hit - 1.0) * held_up_s / scratch.job[beside].gang
            delay_s += lost_s
        lone = state.tenant[gpu, 0] if last == 1 else -1
        lone_type = gpu_type
        worst_s = max(worst_s, scratch.belief.compute_s[row.profile, gpu_type] * own)
    x[OfPair.OWN_SLOWDOWN] = np.log((worst_s + comm_s) / (compute_s + comm_s))
    x[OfPair.WORST_VICTIM] = np.log(victim)
    x[OfPair.VICTIMS_DELAY] = np.log1p(delay_s / mine_s)
    x[OfPair.SHARED] = shared / row.gang


@kernel
def _weigh_ahead(scratch: Scratch, job: int, m: int, slowed: float) -> None:
    """Fill what looks ahead; a step there is exp(`slowed`) times as long as at best."""
    x, ahead, gang, job_s = scratch.pair, scratch.ahead, scratch.job[job].gang, left_s(scratch, job)
    gpus, used = scratch.chosen[:gang], scratch.used[: scratch.scalars[0].num_used]
    wait_s = wait_here_s(ahead, gang, m)
    x[OfPair.WAIT_OVER_LOSS] = wait_over_loss(wait_s, slowed, job_s)
    x[OfPair.PROLONGS] = prolongs(ahead, used, scratch.server, job_s)
    x[OfPair.HOLDS_UP] = holds_up(ahead, used, gpus, job_s, m)


@kernel
def measure_links(scratch: Scratch, running: IntArray, nic: FloatArray, uplink: FloatArray) -> None:
    """Add to nic (S,) and uplink (R,) how busy running jobs are predicted to make them.

    A job adds the share of its undisturbed step for which it communicates between servers: a link
    has 2 where two jobs would always communicate.
    """
    for job in running:  # anew: nobody keeps what loads are predicted to be
        row, scalars = scratch.state.job[job], scratch.scalars[0]
        count_taken(scratch, scratch.state.placed[row.first : row.first + row.held])
        if scalars.num_used == 1:
            continue
        comm = comm_here(scratch, row.profile)
        between_s = comm.server_s + comm.rack_s
        share = between_s / (compute_s_of(scratch, row.profile) + comm.local_s + between_s)
        scalars.stamp += 1
        for i in range(scalars.num_used):  # each server has a NIC of its own
            nic[scratch.used[i]] += share
        if not _spans_racks(scratch):
            continue
        for i in range(scalars.num_used):  # an uplink is its rack's: the stamp lets it count once
            rack = scratch.state.server[scratch.used[i]].rack
            uplink[rack] += 0.0 if scratch.rack_stamp[rack] == scalars.stamp else share
            scratch.rack_stamp[rack] = scalars.stamp


@kernel
def _spans_racks(scratch: Scratch) -> bool:
    """Whether the placement at hand is in several racks."""
    first, several = scratch.state.server[scratch.used[0]].rack, False
    for i in range(scratch.scalars[0].num_used):
        several = several or scratch.state.server[scratch.used[i]].rack != first
    return several


LEAST_S = 60.0  # shorter ages count as this in `age_over_left`
MOST_LOAD = 4.0


@kernel
def job_row(scratch: Scratch, i: int, m: int, row: FloatArray, whole: bool) -> None:
    """Fill row (OfJob,) for place `i` of the window of partition `m`; all but `can_start`.

    Not `whole`: what the prior reads of it (`marl.policy.parts.read_job`) is enough.
    """
    job = scratch.waiting[scratch.window[i]].job
    fixed, work_s, waited_s = scratch.job[job], left_s(scratch, job), age_s(scratch, job)
    row[OfJob.THERE] = 1.0
    row[OfJob.GANG] = np.log2(fixed.gang) / 4.0
    row[OfJob.LEFT] = (np.log(work_s) - 7.0) / 2.5
    row[OfJob.AGE] = np.log1p(waited_s) / 10.0
    row[OfJob.FORWARDS] = scratch.state.job[job].forwards / 3.0
    row[OfJob.OLD] = is_old(scratch, job)
    if not whole:
        return
    row[OfJob.SINGLE] = fixed.gang == 1
    row[OfJob.AGE_OVER_LEFT] = np.log((waited_s + LEAST_S) / work_s) / 5.0
    row[OfJob.STEP] = np.log(fixed.reference_step_s) / 2.0
    row[OfJob.COMM_OVER_2] = _comm_over(scratch, job, 2)
    row[OfJob.COMM_OVER_4] = _comm_over(scratch, job, 4)
    row[OfJob.RANK] = i / scratch.scalars[0].window
    row[OfJob.PLACEABLE] = placeable_now(scratch, job, m)
    row[OfJob.WORK] = (np.log(work_s * fixed.gang) - 8.0) / 3.0


@kernel
def _comm_over(scratch: Scratch, job: int, servers: int) -> float:
    """ln(1 + seconds of communication over so many servers / reference step)."""
    fixed = scratch.job[job]
    comm = comm_of(scratch.belief.network, fixed.profile, Spread(1, servers, 1, 1, 1))
    return float(np.log1p(comm.server_s / fixed.reference_step_s))


@kernel
def gpu_row(scratch: Scratch, gpu: int, row: FloatArray) -> None:
    """Fill row (OfGpu,)."""
    state, count = scratch.state, scratch.state.gpu[gpu].tenants
    gpu_type = state.server[state.gpu[gpu].server].type
    slowdown = scratch.belief.slowing.slowdown
    row[OfGpu.THERE] = 1.0
    row[OfGpu.TENANTS] = count / 2.0
    row[OfGpu.EMPTY] = count == 0
    for k in range(count):  # who stays longest decides when the GPU is empty
        job = state.tenant[gpu, k]
        row[OfGpu.LEFT] = max(row[OfGpu.LEFT], (np.log(left_s(scratch, job)) - 4.0) / 4.0)
        mean = slowdown[gpu_type, scratch.job[job].profile, : slowdown.shape[1]].mean()
        row[OfGpu.SLOWDOWN] += np.log(1.0 + excess_by(mean, scratch.job[job].gpu_milli))


@kernel
def server_rows(scratch: Scratch, m: int, gpus: FloatArray, servers: FloatArray) -> None:
    """Fill gpus (S, K, OfGpu) and servers (S, OfServer) for the servers of partition `m`.

    Rows of servers that are away stay zero, like padding.
    """
    state, first = scratch.state, scratch.state.partition[m].first_own
    for i in range(state.partition[m].last_own - first):  # by the places that actions name
        server, out = state.own[first + i], servers[i]
        where = state.server[server]
        if where.closed > 0:
            continue
        shared, longest = 0, 0.0
        for gpu in range(where.first_gpu, where.last_gpu):  # the server's sums are made on the way
            row = gpus[i, gpu - where.first_gpu]
            gpu_row(scratch, gpu, row)
            shared += state.gpu[gpu].tenants > 1
            longest = max(longest, row[OfGpu.LEFT])
        size = where.last_gpu - where.first_gpu
        out[OfServer.THERE] = 1.0
        out[OfServer.EMPTY] = state.free_gpus.usable[server] / size
        out[OfServer.SHARED] = shared / size
        out[OfServer.GPUS] = size / 8.0
        out[OfServer.NIC_JOBS] = where.nic_jobs / 4.0
        out[OfServer.UPLINK_JOBS] = state.rack[where.rack].uplink_jobs / 4.0
        out[OfServer.LEFT] = longest


@kernel
def peer_row(scratch: Scratch, own: int, m: int, row: FloatArray) -> None:
    """Fill row (OfPeer,); the own partition's is marked."""
    part, capacity = scratch.partition[m], capacity_of(scratch, m)
    row[OfPeer.THERE] = 1.0
    row[OfPeer.OWN] = m == own
    row[OfPeer.LOAD] = min(load_of(scratch, m), MOST_LOAD)
    row[OfPeer.WAITING] = np.log1p(part.jobs_waiting) / 4.0
    row[OfPeer.EMPTY] = usable_in(scratch.state.free_gpus, m) / capacity
    row[OfPeer.LARGEST_NOW] = largest_gang_now(scratch, m) / 16.0
    row[OfPeer.SIZE] = np.log(capacity / capacity_of(scratch, own))


@kernel
def context_row(scratch: Scratch, own: int, row: FloatArray) -> None:
    """Fill row (OfContext,)."""
    count, part, capacity = (
        len(scratch.partition),
        scratch.partition[own],
        capacity_of(scratch, own),
    )
    state, held, load = scratch.state, 0, load_of(scratch, own)
    # nobody keeps a sum of tenants
    for i in range(state.partition[own].first_own, state.partition[own].last_own):
        where = state.server[state.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):  # a shared one counts once a tenant
            held += state.gpu[gpu].tenants
    row[OfContext.EMPTY] = usable_in(state.free_gpus, own) / capacity
    row[OfContext.TENANTS] = held / capacity
    row[OfContext.WAITING] = np.log1p(part.jobs_waiting) / 4.0
    row[OfContext.LOAD] = min(load, MOST_LOAD)
    row[OfContext.LARGEST_NOW] = largest_gang_now(scratch, own) / 16.0
    row[OfContext.PARTITIONS] = count / 8.0
    if count > 1:
        total = 0.0
        for m in range(count):  # the own load, too, which is taken off below
            total += load_of(scratch, m)
        others = (total - load) / (count - 1)
        row[OfContext.LOAD_OF_OTHERS] = min(max(others - load, -MOST_LOAD), MOST_LOAD)
    row[OfContext.SIZE] = np.log(capacity) / 6.0
    row[OfContext.PRESSURE] = pressure_of(scratch, own)


@kernel
def weigh_forward(scratch: Scratch, i: int, home: int, target: int) -> None:
    """Fill `forward` for place `i` of the window of partition `home`.

    All but what the rules of the agents' scalars, or those who wait there, say: `legal`,
    `load_difference`, `hops_left`, `work_ahead`. What looks ahead stays as it is unless
    `scalars.look_ahead`.
    """
    x, job = scratch.forward, scratch.waiting[scratch.window[i]].job
    x[OfForward.PLACEABLE] = 1.0 if placeable_now(scratch, job, target) else 0.0
    if scratch.scalars[0].look_ahead == 0:
        return
    gang, starts_s, ahead = scratch.job[job].gang, scratch.start_in_s, scratch.ahead
    here_s = wait_here_s(ahead, gang, home)
    elsewhere_s = compact_in_s(ahead, ahead.release_s, gang, target)
    x[OfForward.WAIT_DIFFERENCE] = wait_difference(here_s, elsewhere_s)
    x[OfForward.START_DIFFERENCE] = wait_difference(starts_s[home, i], starts_s[target, i])
    effects = effects_elsewhere(ahead, gang, left_s(scratch, job), target, elsewhere_s)
    x[OfForward.PROLONGS] = effects.prolongs
    x[OfForward.FRAGMENTS] = effects.fragments
    x[OfForward.PUTS_OFF] = effects.puts_off


@kernel
def measure_work_ahead(scratch: Scratch, job: int) -> None:
    """Fill `work_ahead_h`: GPU-hours of waiting jobs that are predicted no longer than `job`."""
    mine_s = left_s(scratch, job)
    scratch.work_ahead_h[:] = 0.0
    for at in range(scratch.scalars[0].num_waiting):
        other = scratch.waiting[at].job
        work_s = left_s(scratch, other)
        if other != job and work_s <= mine_s:
            m = scratch.state.job[other].partition
            scratch.work_ahead_h[m] += work_s * scratch.job[other].gang / HOUR_S


@kernel
def log_work_ahead(scratch: Scratch, m: int) -> float:
    """ln(1 + GPU-hours a GPU) of what `measure_work_ahead` found in partition `m`."""
    return float(np.log1p(scratch.work_ahead_h[m] / capacity_of(scratch, m)))


@kernel
def hide_others(own: int, peers: FloatArray, context: FloatArray) -> None:
    """Leave of the rows what they would be were the own partition the whole cluster."""
    for m in range(len(peers)):
        if m != own:
            peers[m] = 0.0
    context[OfContext.PARTITIONS] = 1.0 / 8.0
    context[OfContext.LOAD_OF_OTHERS] = 0.0
