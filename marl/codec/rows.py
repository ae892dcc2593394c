"""Feature rows of jobs, GPUs, servers, peers and the partition itself."""

import numpy as np

from marl.codec.asks import GPU_MILLI
from marl.codec.summary import Summary, largest_gang_now
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel, kernel
from sim.physics.slowing import excess_by
from sim.scoring.table import OfContext, OfGpu, OfJob, OfPeer, OfServer

LEAST_S = 60.0  # shorter estimates and ages count as this: their logarithm says nothing


@kernel
def left_s(tables: Tables, job: int) -> float:
    """Predicted work left, at least a minute and a share of what is done."""
    done_s = tables.progress_s[job]
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
    """Fill row (OfJob,)."""
    gang, p = tables.num_gpus[job], tables.profile[job]
    work_s = left_s(tables, job)
    row[OfJob.THERE] = 1.0
    row[OfJob.GANG] = np.log2(gang) / 4.0
    row[OfJob.SINGLE] = gang == 1
    row[OfJob.LEFT] = (np.log(work_s) - 7.0) / 2.5
    row[OfJob.AGE] = np.log1p(age_s) / 10.0
    row[OfJob.AGE_OVER_LEFT] = np.log((age_s + LEAST_S) / work_s) / 5.0
    row[OfJob.FORWARDS] = forwards / 3.0
    row[OfJob.STEP] = np.log(tables.reference_step_s[job]) / 2.0
    reference_s = tables.reference_step_s[job]
    for i in range(2):
        servers = min(2 * (i + 1), tables.server_s.shape[1] - 1)
        row[OfJob.COMM_OVER_2 + i] = np.log1p(tables.server_s[p, servers] / reference_s)
    row[OfJob.RANK] = rank
    row[OfJob.CAN_START] = fits
    row[OfJob.PLACEABLE] = compact
    row[OfJob.WORK] = (np.log(work_s * gang) - 8.0) / 3.0


@kernel
def server_rows(
    tables: Tables, servers: IntArray, gpus_out: FloatArray, servers_out: FloatArray
) -> None:
    """Fill gpus_out (S, K, OfGpu) and servers_out (S, OfServer) for own servers.

    Rows of servers that are away stay zero, like padding.
    """
    profiles = tables.slowing.slowdown.shape[1]
    for i in range(len(servers)):
        server = servers[i]
        if tables.closed[server] > 0:
            continue
        first, last = tables.server_first_gpu[server], tables.server_first_gpu[server + 1]
        kind = tables.server_type[server]
        free, shared, longest = 0.0, 0.0, 0.0
        for gpu in range(first, last):
            row = gpus_out[i, gpu - first]
            count = tables.tenants[gpu]
            row[OfGpu.THERE] = 1.0
            row[OfGpu.TENANTS] = count / 2.0
            row[OfGpu.EMPTY] = count == 0
            free += count == 0
            shared += count > 1
            for k in range(count):
                job = tables.tenant[gpu, k]
                work = (np.log(left_s(tables, job)) - 4.0) / 4.0
                row[OfGpu.LEFT] = max(row[OfGpu.LEFT], work)
                mean = tables.slowing.slowdown[kind, tables.profile[job], :profiles].mean()
                row[OfGpu.SLOWDOWN] += np.log(1.0 + excess_by(mean, tables.asks[job, GPU_MILLI]))
            longest = max(longest, row[OfGpu.LEFT])
        size = float(last - first)
        out = servers_out[i]
        out[OfServer.THERE] = 1.0
        out[OfServer.EMPTY] = free / size
        out[OfServer.SHARED] = shared / size
        out[OfServer.GPUS] = size / 8.0
        out[OfServer.NIC_JOBS] = tables.nic_jobs[server] / 4.0
        out[OfServer.UPLINK_JOBS] = tables.uplink_jobs[tables.server_rack[server]] / 4.0
        out[OfServer.LEFT] = longest


@kernel
def peer_rows(summary: Summary, own: int, out: FloatArray) -> None:
    """Fill out (M, OfPeer); the own partition's row is marked."""
    for m in range(len(summary.capacity)):
        capacity = summary.capacity[m]
        out[m, OfPeer.THERE] = 1.0
        out[m, OfPeer.OWN] = m == own
        out[m, OfPeer.LOAD] = min(summary.wanted[m] / capacity, 4.0)
        out[m, OfPeer.WAITING] = np.log1p(summary.queued[m]) / 4.0
        out[m, OfPeer.EMPTY] = summary.free[m] / capacity
        out[m, OfPeer.LARGEST_NOW] = largest_gang_now(summary, m) / 16.0
        out[m, OfPeer.SIZE] = np.log(capacity / summary.capacity[own])


@array_kernel
def context_row(
    tables: Tables, summary: Summary, own: int, servers: IntArray, out: FloatArray
) -> None:
    """Fill out (OfContext,)."""
    count = len(summary.capacity)
    load = summary.wanted / summary.capacity
    held = 0.0
    for server in servers:
        for gpu in range(tables.server_first_gpu[server], tables.server_first_gpu[server + 1]):
            held += tables.tenants[gpu]
    out[OfContext.EMPTY] = summary.free[own] / summary.capacity[own]
    out[OfContext.TENANTS] = held / summary.capacity[own]
    out[OfContext.WAITING] = np.log1p(summary.queued[own]) / 4.0
    out[OfContext.LOAD] = min(load[own], 4.0)
    out[OfContext.LARGEST_NOW] = largest_gang_now(summary, own) / 16.0
    out[OfContext.PARTITIONS] = count / 8.0
    if count > 1:
        others = (load.sum() - load[own]) / (count - 1)
        out[OfContext.LOAD_OF_OTHERS] = min(max(others - load[own], -4.0), 4.0)
    out[OfContext.SIZE] = np.log(summary.capacity[own]) / 6.0
    out[OfContext.PRESSURE] = np.log1p(summary.asked[own] / summary.capacity[own])


@kernel
def hide_others(own: int, peers: FloatArray, context: FloatArray) -> None:
    """Leave of the rows what they would be were the own partition the whole cluster."""
    for m in range(len(peers)):
        if m != own:
            peers[m] = 0.0
    context[OfContext.PARTITIONS] = 1.0 / 8.0
    context[OfContext.LOAD_OF_OTHERS] = 0.0
