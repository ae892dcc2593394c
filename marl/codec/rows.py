"""Feature rows of jobs, GPUs, servers, peers and the partition itself."""

import numpy as np

from marl.codec.asks import GPU_MILLI
from marl.codec.summary import Summary, largest_gang_now
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel, kernel
from sim.physics.slowing import excess_by

LEAST_S = 60.0  # shorter estimates and ages count as this: their logarithm says nothing


@kernel
def left_s(tables: Tables, job: int) -> float:
    """Predicted work left, at least a minute and a share of what is done."""
    done_s = tables.state.job[job].seen_progress_s
    return float(max(tables.estimate_s[job] - done_s, LEAST_S, tables.rest_share * done_s))


@array_kernel
def all_left_s(tables: Tables, jobs: IntArray) -> FloatArray:
    """(len(jobs),) predicted work left."""
    return np.array([left_s(tables, job) for job in jobs])


@kernel
def job_row(
    tables: Tables, job: int, age_s: float, forwards: int, rank: float, fits: bool,
    compact: bool, row: FloatArray,
) -> None:  # fmt: skip
    """Fill row (JOB_FEATURES,)."""
    gang, p = tables.num_gpus[job], tables.profile[job]
    work_s = left_s(tables, job)
    row[0] = 1.0
    row[1] = np.log2(gang) / 4.0
    row[2] = gang == 1
    row[3] = (np.log(work_s) - 7.0) / 2.5
    row[4] = np.log1p(age_s) / 10.0
    row[5] = np.log((age_s + LEAST_S) / work_s) / 5.0
    row[6] = forwards / 3.0
    row[7] = np.log(tables.reference_step_s[job]) / 2.0
    reference_s = tables.reference_step_s[job]
    for i in range(2):
        servers = min(2 * (i + 1), tables.server_s.shape[1] - 1)
        row[8 + i] = np.log1p(tables.server_s[p, servers] / reference_s)
    row[10] = rank
    row[11] = fits
    row[12] = compact
    row[13] = (np.log(work_s * gang) - 8.0) / 3.0


@kernel
def server_rows(
    tables: Tables, servers: IntArray, gpus_out: FloatArray, servers_out: FloatArray
) -> None:
    """Fill gpus_out (S, K, GPU_FEATURES) and servers_out (S, SERVER_FEATURES) for own servers.

    Rows of servers that are away stay zero, like padding.
    """
    profiles = tables.slowing.slowdown.shape[1]
    for i in range(len(servers)):
        server = servers[i]
        if tables.state.server[server].closed > 0:
            continue
        first, last = tables.server_first_gpu[server], tables.server_first_gpu[server + 1]
        kind = tables.server_type[server]
        free, shared, longest = 0.0, 0.0, 0.0
        for gpu in range(first, last):
            row = gpus_out[i, gpu - first]
            count = tables.state.gpu[gpu].tenants
            row[0] = 1.0
            row[1] = count / 2.0
            row[4] = count == 0
            free += count == 0
            shared += count > 1
            for k in range(count):
                job = tables.state.tenant[gpu, k]
                work = (np.log(left_s(tables, job)) - 4.0) / 4.0
                row[2] = max(row[2], work)
                mean = tables.slowing.slowdown[kind, tables.profile[job], :profiles].mean()
                row[3] += np.log(1.0 + excess_by(mean, tables.asks[job, GPU_MILLI]))
            longest = max(longest, row[2])
        size = float(last - first)
        out = servers_out[i]
        out[0] = 1.0
        out[1] = free / size
        out[2] = shared / size
        out[3] = size / 8.0
        out[4] = tables.state.server[server].nic_jobs / 4.0
        out[5] = tables.state.rack[tables.server_rack[server]].uplink_jobs / 4.0
        out[6] = longest


@kernel
def peer_rows(summary: Summary, own: int, out: FloatArray) -> None:
    """Fill out (M, PEER_FEATURES); the own partition's row is marked."""
    for m in range(len(summary.capacity)):
        capacity = summary.capacity[m]
        out[m, 0] = 1.0
        out[m, 1] = m == own
        out[m, 2] = min(summary.wanted[m] / capacity, 4.0)
        out[m, 3] = np.log1p(summary.queued[m]) / 4.0
        out[m, 4] = summary.free[m] / capacity
        out[m, 5] = largest_gang_now(summary, m) / 16.0
        out[m, 6] = np.log(capacity / summary.capacity[own])


@array_kernel
def context_row(
    tables: Tables, summary: Summary, own: int, servers: IntArray, out: FloatArray
) -> None:
    """Fill out (CONTEXT_FEATURES,)."""
    count = len(summary.capacity)
    load = summary.wanted / summary.capacity
    held = 0.0
    for server in servers:
        for gpu in range(tables.server_first_gpu[server], tables.server_first_gpu[server + 1]):
            held += tables.state.gpu[gpu].tenants
    out[0] = summary.free[own] / summary.capacity[own]
    out[1] = held / summary.capacity[own]
    out[2] = np.log1p(summary.queued[own]) / 4.0
    out[3] = min(load[own], 4.0)
    out[4] = largest_gang_now(summary, own) / 16.0
    out[5] = count / 8.0
    if count > 1:
        others = (load.sum() - load[own]) / (count - 1)
        out[6] = min(max(others - load[own], -4.0), 4.0)
    out[7] = np.log(summary.capacity[own]) / 6.0
    out[8] = np.log1p(summary.asked[own] / summary.capacity[own])


@kernel
def hide_others(own: int, peers: FloatArray, context: FloatArray) -> None:
    """Leave of the rows what they would be were the own partition the whole cluster."""
    for m in range(len(peers)):
        if m != own:
            peers[m] = 0.0
    context[5] = 1.0 / 8.0
    context[6] = 0.0
