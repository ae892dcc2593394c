"""Predicted cost of a placement: spread, contention, slow-down of self and of victims."""

import numpy as np

from marl.codec.asks import GPU_MILLI
from marl.codec.rows import left_s
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.physics.slowing import hit_of, slow_in
from sim.physics.slowing_tables import seat

SPREAD, CONTENTION, SELF, VICTIM, VICTIM_DELAY, SERVERS, SHARED_FRAC, FRAGMENTS = range(8)


@kernel
def _last(index: int, length: int) -> int:
    return index if index < length else length - 1


@kernel
def _shape(tables: Tables, gpus: IntArray) -> tuple[int, int, int, int, int]:
    """Most GPUs on a server, servers, racks, jobs on the busiest NIC and uplink (others only)."""
    most, servers, racks, nic, uplink = 0, 0, 0, 0, 0
    for i in range(len(gpus)):
        server = tables.gpu_server[gpus[i]]
        here, seen, seen_rack = 0, False, False
        for j in range(len(gpus)):
            other = tables.gpu_server[gpus[j]]
            here += other == server
            seen = seen or (j < i and other == server)
            same_rack = tables.server_rack[other] == tables.server_rack[server]
            seen_rack = seen_rack or (j < i and same_rack)
        most = max(most, here)
        servers += not seen
        racks += not seen_rack
        nic = max(nic, tables.state.server[server].nic_jobs)
        uplink = max(uplink, tables.state.rack[tables.server_rack[server]].uplink_jobs)
    return most, servers, racks, nic, uplink


@kernel
def _gather(tables: Tables, job: int, gpu: int) -> int:
    """Fill the crowd with the tenants of `gpu` and `job` after them; where `job` stands."""
    count, crowd = tables.state.gpu[gpu].tenants, tables.crowd
    for k in range(count):
        other = tables.state.tenant[gpu, k]
        seat(crowd, k, tables.profile[other], tables.asks[other, GPU_MILLI])
    seat(crowd, count, tables.profile[job], tables.asks[job, GPU_MILLI])
    return int(count)


@kernel
def joining_cost(tables: Tables, job: int, gpu: int) -> float:
    """Predicted own slow-down x the worst victim's if `job` joins the tenants of `gpu`."""
    kind = tables.server_type[tables.gpu_server[gpu]]
    last, worst = _gather(tables, job, gpu), 1.0
    for k in range(last):
        worst = max(worst, hit_of(tables.slowing, kind, tables.crowd, last + 1, k))
    return float(slow_in(tables.slowing, kind, tables.crowd, last + 1, last) * worst)


@kernel
def _empty_left(tables: Tables, gpus: IntArray) -> int:
    """Empty GPUs left over on the servers of a placement."""
    total = 0
    for i in range(len(gpus)):
        server, first_seen, taken, empty = tables.gpu_server[gpus[i]], True, 0, 0
        for j in range(len(gpus)):
            same = tables.gpu_server[gpus[j]] == server
            first_seen = first_seen and not (same and j < i)
            taken += same
        first, last = tables.server_first_gpu[server], tables.server_first_gpu[server + 1]
        for gpu in range(first, last):
            empty += tables.state.gpu[gpu].tenants == 0
        total += first_seen * max(empty - taken, 0)
    return total


@kernel
def _neighbours(tables: Tables, job: int, gpus: IntArray) -> tuple[float, float, float, float]:
    """Slowest worker's compute seconds, worst of a victim, victims' added seconds, shared share.

    A victim that shares several GPUs counts once a GPU with 1 / its gang of its delay.
    """
    p = tables.profile[job]
    worst_s, victim, delay_s, shared = 0.0, 1.0, 0.0, 0
    mine_s = left_s(tables, job)
    for gpu in gpus:
        kind = tables.server_type[tables.gpu_server[gpu]]
        shared += tables.state.gpu[gpu].tenants > 0
        last = _gather(tables, job, gpu)
        here = slow_in(tables.slowing, kind, tables.crowd, last + 1, last)
        for k in range(last):
            other = tables.state.tenant[gpu, k]
            hit = hit_of(tables.slowing, kind, tables.crowd, last + 1, k)
            victim = max(victim, hit)
            delay_s += (hit - 1.0) * min(left_s(tables, other), mine_s) / tables.num_gpus[other]
        worst_s = max(worst_s, tables.compute_s[p, kind] * here)
    return worst_s, victim, delay_s, shared / len(gpus)


@kernel
def placement_costs(
    tables: Tables, job: int, gpus: IntArray, largest: int, out: FloatArray
) -> None:
    """Fill out (8,) with log slow-downs by cause, victims' delay over own work, and shape.

    `largest`: GPUs of the partition's largest server, of which `FRAGMENTS` is a share. The first
    three columns add up to the logarithm of the predicted step over `reference_step_s`; the
    kernel's rate (`sim.kernel.rates`) is its inverse where the prediction is right.
    """
    p = tables.profile[job]
    most, servers, racks, nic, uplink = _shape(tables, gpus)
    compute_s = 0.0
    for gpu in gpus:
        kind = tables.server_type[tables.gpu_server[gpu]]
        compute_s = max(compute_s, tables.compute_s[p, kind])
    local_s = tables.local_s[p, _last(most, tables.local_s.shape[1])]
    server_s = tables.server_s[p, _last(servers, tables.server_s.shape[1])]
    rack_s = tables.rack_s[p, _last(racks, tables.rack_s.shape[1])]
    nic_factor, uplink_factor = 1.0, 1.0
    if servers > 1:
        nic_factor = tables.nic_factor[_last(nic + 1, len(tables.nic_factor))]
    if racks > 1:
        uplink_factor = tables.uplink_factor[_last(uplink + 1, len(tables.uplink_factor))]
    alone_s = compute_s + local_s + server_s + rack_s
    busy_s = compute_s + local_s + server_s * nic_factor + rack_s * uplink_factor
    worst_s, victim, delay_s, shared = _neighbours(tables, job, gpus)
    work_s = left_s(tables, job)
    out[SPREAD] = np.log(alone_s / tables.reference_step_s[job])
    out[CONTENTION] = np.log(busy_s / alone_s)
    out[SELF] = np.log((worst_s + busy_s - compute_s) / busy_s)
    out[VICTIM] = np.log(victim)
    out[VICTIM_DELAY] = np.log1p(delay_s / work_s)
    out[SERVERS] = servers / 8.0
    out[SHARED_FRAC] = shared
    out[FRAGMENTS] = _empty_left(tables, gpus) / largest
