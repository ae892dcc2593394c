"""Taking and giving back GPUs: the only code that changes who holds what."""

import numpy as np
from numba import njit

from sim.kernel.heap import heap_remove
from sim.kernel.rates import accrue, mark_dirty, mark_neighbours
from sim.kernel.state import NO_JOB, NOW_S, NUM_QUEUED, NUM_RUNNING, RUNNING, State


@njit(cache=True)
def _measure_spread(state: State, job: int) -> None:
    """Fill spread[job] from placed; counts GPUs a server by stamping `job` on what it visits."""
    servers, racks, most = 0, 0, 0
    for at in range(state.slot[job], state.slot[job + 1]):
        server = state.gpu_server[state.placed[at]]
        if state.seen_server[server] == job:
            continue
        state.seen_server[server] = job
        servers += 1
        rack = state.server_rack[server]
        if state.seen_rack[rack] != job:
            state.seen_rack[rack] = job
            racks += 1
        here = 0
        for other in range(state.slot[job], state.slot[job + 1]):
            if state.gpu_server[state.placed[other]] == server:
                here += 1
        most = max(most, here)
    state.spread[job, 0], state.spread[job, 1], state.spread[job, 2] = most, servers, racks
    _forget_stamps(state, job)


@njit(cache=True)
def _forget_stamps(state: State, job: int) -> None:
    for at in range(state.slot[job], state.slot[job + 1]):
        server = state.gpu_server[state.placed[at]]
        state.seen_server[server] = NO_JOB
        state.seen_rack[state.server_rack[server]] = NO_JOB


@njit(cache=True)
def _count_links(state: State, job: int, change: int) -> None:
    """Add `change` to the NICs (uplinks) of a job that spans servers (racks), once each."""
    if state.spread[job, 1] <= 1:
        return
    for at in range(state.slot[job], state.slot[job + 1]):
        server = state.gpu_server[state.placed[at]]
        if state.seen_server[server] != job:
            state.seen_server[server] = job
            state.nic_jobs[server] += change
        rack = state.server_rack[server]
        if state.spread[job, 2] > 1 and state.seen_rack[rack] != job:
            state.seen_rack[rack] = job
            state.uplink_jobs[rack] += change
    _forget_stamps(state, job)


@njit(cache=True)
def queue_insert(state: State, job: int) -> None:
    """Put `job` into the queue, which stays ascending."""
    at = state.counts[NUM_QUEUED]
    while at > 0 and state.queue[at - 1] > job:
        state.queue[at] = state.queue[at - 1]
        at -= 1
    state.queue[at] = job
    state.counts[NUM_QUEUED] += 1


@njit(cache=True)
def queue_remove(state: State, job: int) -> None:
    """Take `job` out of the queue."""
    low, high = 0, state.counts[NUM_QUEUED]
    while low < high:
        middle = (low + high) // 2
        if state.queue[middle] < job:
            low = middle + 1
        else:
            high = middle
    last = state.counts[NUM_QUEUED] - 1
    for at in range(low, last):
        state.queue[at] = state.queue[at + 1]
    state.counts[NUM_QUEUED] = last


@njit(cache=True)
def occupy(state: State, job: int) -> None:
    """Let `job` run on the GPUs written in `placed`; the caller has checked them."""
    now_s = state.clock[NOW_S]
    for at in range(state.slot[job], state.slot[job + 1]):
        gpu = state.placed[at]
        if state.tenants[gpu] == 0:
            state.server_free[state.gpu_server[gpu]] -= 1
        state.tenant[gpu, state.tenants[gpu]] = job
        state.tenants[gpu] += 1
    _measure_spread(state, job)
    _count_links(state, job, 1)
    mark_neighbours(state, job)
    state.running_at[job] = state.counts[NUM_RUNNING]
    state.running[state.counts[NUM_RUNNING]] = job
    state.counts[NUM_RUNNING] += 1
    state.status[job] = RUNNING
    state.rate[job] = 0.0  # rerate gives the real one; 0 is never a job's rate
    state.rated_s[job] = now_s + (state.rules[0] if state.preemptions[job] > 0 else 0.0)
    state.resume_s[job] = state.rated_s[job]
    state.started_s[job] = now_s
    if np.isnan(state.first_start_s[job]):
        state.first_start_s[job] = now_s
    mark_dirty(state, job)


@njit(cache=True)
def vacate(state: State, job: int, status: int) -> None:
    """Take `job` off its GPUs with its work booked; its new status is `status`."""
    accrue(state, job)
    state.status[job] = status
    state.run_s[job] += state.clock[NOW_S] - state.started_s[job]
    state.served_s[job] += max(0.0, state.clock[NOW_S] - state.resume_s[job])
    for at in range(state.slot[job], state.slot[job + 1]):
        gpu = state.placed[at]
        last = state.tenants[gpu] - 1
        found = False
        for k in range(last):  # the others keep their order: sums over tenants stay the same
            found = found or state.tenant[gpu, k] == job
            if found:
                state.tenant[gpu, k] = state.tenant[gpu, k + 1]
        state.tenant[gpu, last] = NO_JOB
        state.tenants[gpu] = last
        if last == 0:
            state.server_free[state.gpu_server[gpu]] += 1
    _count_links(state, job, -1)
    mark_neighbours(state, job)
    last_running = state.counts[NUM_RUNNING] - 1
    moved = state.running[last_running]
    state.running[state.running_at[job]] = moved
    state.running_at[moved] = state.running_at[job]
    state.counts[NUM_RUNNING] = last_running
    heap_remove(state, job)
