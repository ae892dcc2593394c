"""What the codec's compiled functions read: one tuple of arrays, taken from a view."""

from typing import NamedTuple

import numpy as np

from marl.codec.asks import asks_of, holds_of
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.physics.reference import compact_spread
from sim.view import ClusterView


class Tables(NamedTuple):
    """Windows on the cluster (they change in place) and the belief's tables (they do not)."""

    num_gpus: IntArray  # (J,)
    profile: IntArray  # (J,)
    estimate_s: FloatArray  # (J,)
    progress_s: FloatArray  # (J,)
    tenants: IntArray  # (G,)
    tenant: IntArray  # (G, C)
    gpu_server: IntArray  # (G,)
    server_first_gpu: IntArray  # (S + 1,)
    server_rack: IntArray  # (S,)
    server_type: IntArray  # (S,)
    nic_jobs: IntArray  # (S,)
    uplink_jobs: IntArray  # (R,)
    compute_s: FloatArray  # (P, T)
    slowdown: FloatArray  # (T, P, P)
    feasible: BoolArray  # (T, P, P)
    local_s: FloatArray
    server_s: FloatArray
    rack_s: FloatArray
    nic_factor: FloatArray
    uplink_factor: FloatArray
    reference_step_s: FloatArray  # (J,) predicted step, most compact, fastest type present
    # Few arrays with columns: compiled functions are handed all of this at every call.
    asks: IntArray  # (J, 5) see `marl.codec.asks`
    holds: IntArray  # (S, 4) the same
    promised_milli: IntArray  # (G,) what the tenants of a GPU ask for together
    limit_milli: int
    closed: IntArray  # (S,) 0: the server is up
    cpu_free_milli: IntArray  # (S,)
    memory_free_mib: IntArray  # (S,)


def tables_of(view: ClusterView) -> Tables:
    """Tables for one run; `view` needs PREDICTION, PROFILE and INTERFERENCE."""
    belief, topology, jobs = view.belief, view.topology, view.jobs
    network, compute_s = belief.network, np.ascontiguousarray(belief.catalogue.compute_s)
    local, servers, racks = compact_spread(jobs.num_gpus, topology)

    def at(table: FloatArray, index: IntArray) -> FloatArray:
        picked: FloatArray = table[jobs.profile, np.minimum(index, table.shape[1] - 1)]
        return picked

    fastest_s = compute_s[:, np.unique(view.server_type)].min(axis=1)[jobs.profile]
    comm_s = at(network.local_s, local) + at(network.server_s, servers) + at(network.rack_s, racks)
    return Tables(
        num_gpus=jobs.num_gpus,
        profile=jobs.profile,
        estimate_s=jobs.estimate_s,
        progress_s=jobs.progress_s,
        tenants=view.tenants,
        tenant=view.tenant,
        gpu_server=np.ascontiguousarray(topology.gpu_server, dtype=np.int64),
        server_first_gpu=np.ascontiguousarray(topology.server_first_gpu, dtype=np.int64),
        server_rack=np.ascontiguousarray(topology.server_rack, dtype=np.int64),
        server_type=view.server_type,
        nic_jobs=view.nic_jobs,
        uplink_jobs=view.uplink_jobs,
        compute_s=compute_s,
        slowdown=np.ascontiguousarray(belief.pairs.slowdown),
        feasible=np.ascontiguousarray(belief.pairs.feasible),
        local_s=np.ascontiguousarray(network.local_s),
        server_s=np.ascontiguousarray(network.server_s),
        rack_s=np.ascontiguousarray(network.rack_s),
        nic_factor=np.ascontiguousarray(network.nic_factor),
        uplink_factor=np.ascontiguousarray(network.uplink_factor),
        reference_step_s=fastest_s + comm_s,
        asks=asks_of(view),
        holds=holds_of(view),
        promised_milli=view.gpu_milli,
        limit_milli=view.gpu_limit_milli,
        closed=view.server_closed,
        cpu_free_milli=view.server_cpu_free_milli,
        memory_free_mib=view.server_memory_free_mib,
    )
