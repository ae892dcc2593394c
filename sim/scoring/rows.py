"""Features of jobs, GPUs, servers, partitions and forwards; those of placements: `costs`."""

import numpy as np

from sim.arrays import FloatArray
from sim.jit import kernel
from sim.kernel.free_gpus import usable_in
from sim.physics.communication import Spread, comm_of
from sim.physics.slowing import excess_by
from sim.scoring.ahead import compact_in_s, effects_there, wait_difference
from sim.scoring.room import (
    age_s,
    capacity_of,
    is_old,
    largest_gang_now,
    left_s,
    load_of,
    placeable_now,
    pressure_of,
)
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfContext, OfForward, OfGpu, OfJob, OfPeer, OfServer

LEAST_S = 60.0  # shorter ages count as this in `age_over_left`
MOST_LOAD = 4.0


@kernel
def job_row(scratch: Scratch, i: int, m: int, row: FloatArray) -> None:
    """Fill row (OfJob,) for place `i` of the window of partition `m`; all but `can_start`."""
    job = scratch.waiting[scratch.window[i]].job
    fixed, work_s, waited_s = scratch.job[job], left_s(scratch, job), age_s(scratch, job)
    row[OfJob.THERE] = 1.0
    row[OfJob.GANG] = np.log2(fixed.gang) / 4.0
    row[OfJob.SINGLE] = fixed.gang == 1
    row[OfJob.LEFT] = (np.log(work_s) - 7.0) / 2.5
    row[OfJob.AGE] = np.log1p(waited_s) / 10.0
    row[OfJob.AGE_OVER_LEFT] = np.log((waited_s + LEAST_S) / work_s) / 5.0
    row[OfJob.FORWARDS] = scratch.state.job[job].forwards / 3.0
    row[OfJob.STEP] = np.log(fixed.reference_step_s) / 2.0
    row[OfJob.COMM_OVER_2] = _comm_over(scratch, job, 2)
    row[OfJob.COMM_OVER_4] = _comm_over(scratch, job, 4)
    row[OfJob.RANK] = i / scratch.game[0].window
    row[OfJob.PLACEABLE] = placeable_now(scratch, job, m)
    row[OfJob.WORK] = (np.log(work_s * fixed.gang) - 8.0) / 3.0
    row[OfJob.OLD] = is_old(scratch, job)


@kernel
def _comm_over(scratch: Scratch, job: int, servers: int) -> float:
    """ln(1 + seconds of communication over so many servers / reference step)."""
    fixed = scratch.job[job]
    comm = comm_of(scratch.belief, fixed.profile, Spread(1, servers, 1, 1, 1))
    return float(np.log1p(comm.server_s / fixed.reference_step_s))


@kernel
def gpu_row(scratch: Scratch, gpu: int, row: FloatArray) -> None:
    """Fill row (OfGpu,)."""
    state, count = scratch.state, scratch.state.gpu[gpu].tenants
    kind = state.server[state.gpu[gpu].server].type
    slowdown = scratch.belief.slowing.slowdown
    row[OfGpu.THERE] = 1.0
    row[OfGpu.TENANTS] = count / 2.0
    row[OfGpu.EMPTY] = count == 0
    for k in range(count):
        job = state.tenant[gpu, k]
        row[OfGpu.LEFT] = max(row[OfGpu.LEFT], (np.log(left_s(scratch, job)) - 4.0) / 4.0)
        mean = slowdown[kind, scratch.job[job].profile, : slowdown.shape[1]].mean()
        row[OfGpu.SLOWDOWN] += np.log(1.0 + excess_by(mean, scratch.job[job].gpu_milli))


@kernel
def server_rows(scratch: Scratch, m: int, gpus: FloatArray, servers: FloatArray) -> None:
    """Fill gpus (S, K, OfGpu) and servers (S, OfServer) for the servers of partition `m`.

    Rows of servers that are away stay zero, like padding.
    """
    state, first = scratch.state, scratch.state.partition[m].first_own
    for i in range(state.partition[m].last_own - first):
        server, out = state.own[first + i], servers[i]
        where = state.server[server]
        if where.closed > 0:
            continue
        shared, longest = 0, 0.0
        for gpu in range(where.first_gpu, where.last_gpu):
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
    for i in range(state.partition[own].first_own, state.partition[own].last_own):
        where = state.server[state.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):
            held += state.gpu[gpu].tenants
    row[OfContext.EMPTY] = usable_in(state.free_gpus, own) / capacity
    row[OfContext.TENANTS] = held / capacity
    row[OfContext.WAITING] = np.log1p(part.jobs_waiting) / 4.0
    row[OfContext.LOAD] = min(load, MOST_LOAD)
    row[OfContext.LARGEST_NOW] = largest_gang_now(scratch, own) / 16.0
    row[OfContext.PARTITIONS] = count / 8.0
    if count > 1:
        total = 0.0
        for m in range(count):
            total += load_of(scratch, m)
        others = (total - load) / (count - 1)
        row[OfContext.LOAD_OF_OTHERS] = min(max(others - load, -MOST_LOAD), MOST_LOAD)
    row[OfContext.SIZE] = np.log(capacity) / 6.0
    row[OfContext.PRESSURE] = pressure_of(scratch, own)


@kernel
def weigh_forward(scratch: Scratch, i: int, home: int, target: int) -> None:
    """Fill `forward` for place `i` of the window of partition `home`.

    All but what the rules of the agents' game, or those who wait there, say: `legal`,
    `load_difference`, `hops_left`, `work_ahead`. What looks ahead stays as it is unless
    `game.look_ahead`.
    """
    x, job = scratch.forward, scratch.waiting[scratch.window[i]].job
    x[OfForward.PLACEABLE] = 1.0 if placeable_now(scratch, job, target) else 0.0
    if scratch.game[0].look_ahead == 0:
        return
    gang, starts_s, ahead = scratch.job[job].gang, scratch.start_in_s, scratch.ahead
    here_s = compact_in_s(ahead, ahead.release_s, gang, home)
    there_s = compact_in_s(ahead, ahead.release_s, gang, target)
    x[OfForward.WAIT_DIFFERENCE] = wait_difference(here_s, there_s)
    x[OfForward.START_DIFFERENCE] = wait_difference(starts_s[home, i], starts_s[target, i])
    there = effects_there(ahead, gang, left_s(scratch, job), target)
    x[OfForward.PROLONGS] = there.prolongs
    x[OfForward.FRAGMENTS] = there.fragments
    x[OfForward.PUTS_OFF] = there.puts_off


@kernel
def measure_work_ahead(scratch: Scratch, job: int) -> None:
    """Fill `work_ahead_h`: GPU-hours of waiting jobs that are predicted no longer than `job`."""
    mine_s = left_s(scratch, job)
    scratch.work_ahead_h[:] = 0.0
    for at in range(scratch.game[0].num_waiting):
        other = scratch.waiting[at].job
        work_s = left_s(scratch, other)
        if other != job and work_s <= mine_s:
            m = scratch.state.job[other].partition
            scratch.work_ahead_h[m] += work_s * scratch.job[other].gang / 3600.0


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
