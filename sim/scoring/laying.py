"""The desk at the beginning of a decision: what the state says, counted by partition."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import kernel
from sim.scoring.ahead import NEVER_S, sort_release
from sim.scoring.desk import Desk
from sim.scoring.room import left_s


@kernel
def lay_out(desk: Desk, queued: IntArray, running: IntArray, now_s: float) -> None:
    """Begin with the state as it is; `queued` and `running` are the jobs that count."""
    state = desk.state
    desk.game[0].now_s = now_s
    begin_gang(desk, queued[:0])
    for gpu in range(len(desk.gpu)):
        _lay_out_gpu(desk, gpu)
    for server in range(len(desk.server)):
        where = desk.server[server]
        where.closed = state.server[server].closed
        where.cpu_free_milli = state.server[server].cpu_free_milli
        where.memory_free_mib = state.server[server].memory_free_mib
        where.nic_jobs = state.server[server].nic_jobs
    for rack in range(len(desk.rack)):
        desk.rack[rack].uplink_jobs = state.rack[rack].uplink_jobs
    _lay_out_partitions(desk)
    _lay_out_jobs(desk, queued, running)


@kernel
def _lay_out_gpu(desk: Desk, gpu: int) -> None:
    seat, real, tenant = desk.gpu[gpu], desk.state.gpu[gpu], desk.state.tenant
    same = seat.tenants == real.tenants
    for k in range(real.tenants):
        same = same and desk.tenant[gpu, k] == tenant[gpu, k]
        desk.tenant[gpu, k] = tenant[gpu, k]
    seat.tenants = real.tenants
    seat.milli = real.milli
    if not same:
        forget_cost(desk, gpu)


@kernel
def forget_cost(desk: Desk, gpu: int) -> None:
    """The tenants of `gpu` have changed."""
    for p in range(len(desk.cost)):
        desk.cost[p, gpu] = np.nan


@kernel
def _lay_out_partitions(desk: Desk) -> None:
    for m in range(len(desk.partition)):
        part = desk.partition[m]
        part.up = 0
        part.largest = 1
        part.wanted = 0
        part.waiting = 0
        part.jobs_waiting = 0
        part.running = 0
        part.due = 0
        for i in range(part.first_own, part.last_own):
            where = desk.server[desk.own[i]]
            if where.closed == 0:
                size = where.last_gpu - where.first_gpu
                part.up += size
                part.largest = max(part.largest, size)
        measure_room(desk, m)


@kernel
def _lay_out_jobs(desk: Desk, queued: IntArray, running: IntArray) -> None:
    jobs, largest_gang = desk.state.job, 1
    for job in running:
        part = desk.partition[jobs[job].partition]
        largest_gang = max(largest_gang, desk.job[job].gang)
        part.running += 1
        part.wanted += desk.job[job].gang
    for i in range(len(queued)):
        row, job = desk.waiting[i], queued[i]
        part = desk.partition[jobs[job].partition]
        row.job = job
        row.partition = jobs[job].partition
        row.moved = 0
        row.started = 0
        row.last = 0
        row.key = left_s(desk, job) if desk.game[0].use_durations != 0 else desk.job[job].gang
        largest_gang = max(largest_gang, desk.job[job].gang)
        part.wanted += desk.job[job].gang
        part.waiting += desk.job[job].gang
        part.jobs_waiting += 1
        part.due = 1
    desk.game[0].num_waiting = len(queued)
    desk.ahead.largest_gang[0] = largest_gang


@kernel
def measure_room(desk: Desk, m: int) -> None:
    """Count the empty GPUs of partition `m`, and see when the others fall empty."""
    part = desk.partition[m]
    part.free = 0
    part.roomiest = 0
    part.whole = 0
    for i in range(part.first_own, part.last_own):
        where = desk.server[desk.own[i]]
        where.empty = 0
        if where.closed > 0:
            continue
        for gpu in range(where.first_gpu, where.last_gpu):
            where.empty += desk.gpu[gpu].tenants == 0
        part.free += where.empty
        if where.empty == part.largest:
            part.whole += 1
        else:
            part.roomiest = max(part.roomiest, where.empty)
    if desk.game[0].look_ahead != 0:
        _measure_release(desk, m)


@kernel
def _measure_release(desk: Desk, m: int) -> None:
    """See when the GPUs of partition `m` are predicted to fall empty."""
    part, ahead = desk.partition[m], desk.ahead
    ahead.largest[m] = part.largest
    for i in range(part.first_own, part.last_own):
        where = desk.server[desk.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):
            free_s = NEVER_S if where.closed > 0 else 0.0
            for k in range(desk.gpu[gpu].tenants):
                free_s = max(free_s, left_s(desk, desk.tenant[gpu, k]))
            ahead.free_s[gpu] = free_s
    sort_release(ahead, m)


@kernel
def begin_gang(desk: Desk, gpus: IntArray) -> None:
    """From now on the gang at hand has workers on `gpus` that stay there; none: a new gang."""
    for i in range(desk.game[0].num_placed):
        desk.gpu[desk.placed[i]].placed = 0
    desk.game[0].num_placed = len(gpus)
    for i in range(len(gpus)):
        desk.placed[i] = gpus[i]
        desk.gpu[gpus[i]].placed = 1
