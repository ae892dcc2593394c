"""Everything the kernel reads and writes: one tuple of arrays, made once a run."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import JobTable
from sim.physics.physics import Physics
from sim.topology.topology import Topology

PENDING, QUEUED, RUNNING, FINISHED = 0, 1, 2, 3  # values of State.status
NO_JOB = -1

# Rows of State.counts.
NEXT_ARRIVAL, NUM_QUEUED, NUM_RUNNING, HEAP_SIZE, NUM_LOGGED, NUM_LOGGED_GPUS, NUM_DIRTY = range(7)
# Rows of State.clock.
NOW_S, WAKE_S = range(2)


class State(NamedTuple):
    """J jobs, G GPUs, S servers, R racks, T GPU types, P profiles, C tenants a GPU at most."""

    # Jobs, fixed.
    submit_s: FloatArray  # (J,)
    num_gpus: IntArray  # (J,)
    work_s: FloatArray  # (J,)
    profile: IntArray  # (J,)
    slot: IntArray  # (J + 1,) GPUs of job j stand in placed[slot[j]:slot[j + 1]]
    reference_step_s: FloatArray  # (J,) step time on the most compact exclusive placement
    # Jobs, changing.
    status: IntArray  # (J,)
    partition: IntArray  # (J,)
    forwards: IntArray  # (J,)
    preemptions: IntArray  # (J,)
    progress_s: FloatArray  # (J,) work done at rated_s
    rate: FloatArray  # (J,) work seconds per second from rated_s on
    rated_s: FloatArray  # (J,) may lie ahead of now while a restart is under way
    started_s: FloatArray  # (J,) start of the attempt that runs
    run_s: FloatArray  # (J,) time on GPUs before this attempt
    served_s: FloatArray  # (J,) the same without restarts
    resume_s: FloatArray  # (J,) when this attempt began, or begins, to make progress
    first_start_s: FloatArray  # (J,)
    finish_s: FloatArray  # (J,)
    placed: IntArray  # (sum of gangs,)
    spread: IntArray  # (J, 3) of the placement: most GPUs on one server, servers, racks
    # As seen at a decision: refreshed for running jobs by `observe`.
    seen_progress_s: FloatArray  # (J,)
    attained_gpu_s: FloatArray  # (J,)
    # Cluster.
    gpu_server: IntArray  # (G,)
    server_first_gpu: IntArray  # (S + 1,)
    server_rack: IntArray  # (S,)
    rack_first_server: IntArray  # (R + 1,)
    server_type: IntArray  # (S,) catalogue row
    server_partition: IntArray  # (S,)
    tenants: IntArray  # (G,) jobs on the GPU
    tenant: IntArray  # (G, C) those jobs, first `tenants` entries
    server_free: IntArray  # (S,) GPUs without a tenant
    nic_jobs: IntArray  # (S,) multi-server jobs on the server
    uplink_jobs: IntArray  # (R,) multi-rack jobs in the rack
    # Physics.
    compute_s: FloatArray  # (P, T)
    slowdown: FloatArray  # (T, P, P)
    feasible: BoolArray  # (T, P, P)
    local_s: FloatArray  # (P, .)
    server_s: FloatArray  # (P, .)
    rack_s: FloatArray  # (P, .)
    nic_factor: FloatArray  # (K,)
    uplink_factor: FloatArray  # (U,)
    # Queue (ascending job), running jobs (any order), finish heap keyed (time, job).
    queue: IntArray  # (J,)
    running: IntArray  # (min(J, G * C),)
    running_at: IntArray  # (J,) place of a running job in `running`
    heap: IntArray  # as running
    heap_at: IntArray  # (J,) place of a job in `heap`
    heap_s: FloatArray  # (J,) finish time of a running job
    dirty: IntArray  # jobs whose rate may have changed
    is_dirty: BoolArray  # (J,)
    seen_server: IntArray  # (S,) stamps used while a placement is measured
    seen_rack: IntArray  # (R,)
    # Log since the last flush.
    log_s: FloatArray
    log_kind: IntArray
    log_job: IntArray
    log_partition: IntArray
    log_gpus: IntArray
    # Scalars.
    counts: IntArray
    clock: FloatArray
    rules: FloatArray  # restart_s, max_forwards


def make_state(
    *,
    jobs: JobTable,
    topology: Topology,
    physics: Physics,
    server_partition: IntArray,
    max_tenants: int,
    restart_s: float,
    max_forwards: int,
) -> State:
    """Fresh state at time 0 with every job pending."""
    n, g = len(jobs), topology.num_gpus
    most_running = max(1, min(n, g * max_tenants))
    log_rows = 4 * (n + most_running) + 64
    slot = np.concatenate([[0], np.cumsum(jobs.num_gpus)]).astype(np.int64)
    pairs, network = physics.pairs, physics.network

    def f(size: int, value: float = 0.0) -> FloatArray:
        return np.full(size, value)

    def i(size: int, value: int = 0) -> IntArray:
        return np.full(size, value, dtype=np.int64)

    return State(
        submit_s=np.ascontiguousarray(jobs.submit_s, dtype=np.float64),
        num_gpus=np.ascontiguousarray(jobs.num_gpus, dtype=np.int64),
        work_s=np.ascontiguousarray(jobs.duration_s, dtype=np.float64),
        profile=np.ascontiguousarray(jobs.profile, dtype=np.int64),
        slot=slot,
        reference_step_s=reference_step_s(jobs, topology, physics),
        status=i(n, PENDING),
        partition=np.array(jobs.home, dtype=np.int64),
        forwards=i(n),
        preemptions=i(n),
        progress_s=f(n),
        rate=f(n),
        rated_s=f(n),
        started_s=f(n),
        run_s=f(n),
        served_s=f(n),
        resume_s=f(n),
        first_start_s=f(n, np.nan),
        finish_s=f(n, np.nan),
        placed=i(int(slot[-1]), NO_JOB),
        spread=np.zeros((n, 3), dtype=np.int64),
        seen_progress_s=f(n),
        attained_gpu_s=f(n),
        gpu_server=np.ascontiguousarray(topology.gpu_server, dtype=np.int64),
        server_first_gpu=np.ascontiguousarray(topology.server_first_gpu, dtype=np.int64),
        server_rack=np.ascontiguousarray(topology.server_rack, dtype=np.int64),
        rack_first_server=np.searchsorted(
            topology.server_rack, np.arange(topology.num_racks + 1)
        ).astype(np.int64),
        server_type=physics.server_types(topology),
        server_partition=np.ascontiguousarray(server_partition, dtype=np.int64),
        tenants=i(g),
        tenant=np.full((g, max_tenants), NO_JOB, dtype=np.int64),
        server_free=np.array(topology.gpus_per_server, dtype=np.int64),
        nic_jobs=i(topology.num_servers),
        uplink_jobs=i(topology.num_racks),
        compute_s=np.ascontiguousarray(physics.catalogue.compute_s, dtype=np.float64),
        slowdown=np.ascontiguousarray(pairs.slowdown, dtype=np.float64),
        feasible=np.ascontiguousarray(pairs.feasible, dtype=np.bool_),
        local_s=np.ascontiguousarray(network.local_s, dtype=np.float64),
        server_s=np.ascontiguousarray(network.server_s, dtype=np.float64),
        rack_s=np.ascontiguousarray(network.rack_s, dtype=np.float64),
        nic_factor=np.ascontiguousarray(network.nic_factor, dtype=np.float64),
        uplink_factor=np.ascontiguousarray(network.uplink_factor, dtype=np.float64),
        queue=i(n),
        running=i(most_running),
        running_at=i(n),
        heap=i(most_running),
        heap_at=i(n, NO_JOB),
        heap_s=f(n),
        dirty=i(n),
        is_dirty=np.zeros(n, dtype=np.bool_),
        seen_server=i(topology.num_servers, NO_JOB),
        seen_rack=i(topology.num_racks, NO_JOB),
        log_s=f(log_rows),
        log_kind=i(log_rows),
        log_job=i(log_rows),
        log_partition=i(log_rows),
        log_gpus=i(4 * g * max_tenants + 64),
        counts=i(7),
        clock=np.array([0.0, np.inf]),
        rules=np.array([restart_s, float(max_forwards)]),
    )


def compact_spread(num_gpus: IntArray, topology: Topology) -> tuple[IntArray, IntArray, IntArray]:
    """Most GPUs on one server, servers and racks of the most compact placement of each gang."""
    largest = int(topology.gpus_per_server.max())
    rack_servers = int(np.bincount(topology.server_rack).max())
    servers = -(-num_gpus // largest)
    return np.minimum(num_gpus, largest), servers, -(-servers // rack_servers)


def reference_step_s(jobs: JobTable, topology: Topology, physics: Physics) -> FloatArray:
    """(J,) step time of each job alone, most compact, on the trace's reference GPU type."""
    local, servers, racks = compact_spread(jobs.num_gpus, topology)
    network, p = physics.network, jobs.profile

    def at(table: FloatArray, index: IntArray) -> FloatArray:
        picked: FloatArray = table[p, np.minimum(index, table.shape[1] - 1)]
        return picked

    compute_s = physics.catalogue.compute_s[p, physics.type_index(physics.reference_gpu)]
    # Added in the kernel's order, so that the reference placement has rate 1.0 to the last bit.
    comm_s = at(network.local_s, local) + at(network.server_s, servers) * network.nic_factor[1]
    comm_s = comm_s + at(network.rack_s, racks) * network.uplink_factor[1]
    total: FloatArray = compute_s + comm_s
    return total
