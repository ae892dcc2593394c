"""Speed of running jobs: measured again only where a neighbour, NIC or uplink changed."""

from numba import njit

from sim.kernel.heap import heap_set
from sim.kernel.state import NOW_S, NUM_DIRTY, RUNNING, State


@njit(cache=True)
def mark_dirty(state: State, job: int) -> None:
    """Have `job` re-rated before the instant ends."""
    if not state.is_dirty[job]:
        state.is_dirty[job] = True
        state.dirty[state.counts[NUM_DIRTY]] = job
        state.counts[NUM_DIRTY] += 1


@njit(cache=True)
def _mark_link_sharers(state: State, first_server: int, last_server: int, least: int) -> None:
    """Mark tenants of these servers that span at least 2 servers (least=1) or racks (least=2)."""
    for gpu in range(state.server_first_gpu[first_server], state.server_first_gpu[last_server]):
        for k in range(state.tenants[gpu]):
            job = state.tenant[gpu, k]
            if state.spread[job, least] > 1:
                mark_dirty(state, job)


@njit(cache=True)
def mark_neighbours(state: State, job: int) -> None:
    """Mark everyone whose speed the coming or going of `job` can change."""
    for at in range(state.slot[job], state.slot[job + 1]):
        gpu = state.placed[at]
        for k in range(state.tenants[gpu]):
            mark_dirty(state, state.tenant[gpu, k])
        if state.spread[job, 1] > 1:
            server = state.gpu_server[gpu]
            _mark_link_sharers(state, server, server + 1, 1)
            if state.spread[job, 2] > 1:
                rack = state.server_rack[server]
                _mark_link_sharers(
                    state, state.rack_first_server[rack], state.rack_first_server[rack + 1], 2
                )


@njit(cache=True)
def _last(index: int, length: int) -> int:
    return index if index < length else length - 1


@njit(cache=True)
def rate_of(state: State, job: int) -> float:
    """Work seconds per second of `job` where it runs now; the worst worker counts."""
    p = state.profile[job]
    worst_s, nic, uplink = 0.0, 1, 1
    for at in range(state.slot[job], state.slot[job + 1]):
        gpu = state.placed[at]
        server = state.gpu_server[gpu]
        kind = state.server_type[server]
        slow = 1.0
        for k in range(state.tenants[gpu]):
            other = state.tenant[gpu, k]
            if other != job:
                slow += state.slowdown[kind, p, state.profile[other]] - 1.0
        worst_s = max(worst_s, state.compute_s[p, kind] * slow)
        nic = max(nic, state.nic_jobs[server])
        uplink = max(uplink, state.uplink_jobs[state.server_rack[server]])
    local, servers, racks = state.spread[job, 0], state.spread[job, 1], state.spread[job, 2]
    nic_factor = state.nic_factor[_last(nic, len(state.nic_factor))]
    uplink_factor = state.uplink_factor[_last(uplink, len(state.uplink_factor))]
    comm_s = (
        state.local_s[p, _last(local, state.local_s.shape[1])]
        + state.server_s[p, _last(servers, state.server_s.shape[1])] * nic_factor
    )
    comm_s = comm_s + state.rack_s[p, _last(racks, state.rack_s.shape[1])] * uplink_factor
    return float(state.reference_step_s[job] / (worst_s + comm_s))


@njit(cache=True)
def accrue(state: State, job: int) -> None:
    """Book the work done since the job was last rated."""
    now_s = state.clock[NOW_S]
    if now_s > state.rated_s[job]:
        done_s = state.progress_s[job] + state.rate[job] * (now_s - state.rated_s[job])
        state.progress_s[job] = min(done_s, state.work_s[job])
        state.rated_s[job] = now_s


@njit(cache=True)
def rerate(state: State) -> None:
    """Give every dirty running job its new rate and finish time."""
    for i in range(state.counts[NUM_DIRTY]):
        job = state.dirty[i]
        state.is_dirty[job] = False
        if state.status[job] != RUNNING:
            continue
        rate = rate_of(state, job)
        if rate == state.rate[job]:
            continue
        accrue(state, job)
        state.rate[job] = rate
        left_s = state.work_s[job] - state.progress_s[job]
        heap_set(state, job, state.rated_s[job] + left_s / rate)
    state.counts[NUM_DIRTY] = 0
