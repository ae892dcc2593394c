"""Everything the kernel reads and writes: one tuple of arrays, made once a run."""

from typing import Any, NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import JobTable
from sim.physics.physics import Physics
from sim.physics.reference import reference_step_s
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


Columns = dict[str, Any]


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
    most_running = max(1, min(len(jobs), topology.num_gpus * max_tenants))
    return State(
        **_job_columns(jobs),
        reference_step_s=reference_step_s(jobs, topology, physics),
        **_cluster_columns(topology, max_tenants),
        server_type=physics.server_types(topology),
        server_partition=np.ascontiguousarray(server_partition, dtype=np.int64),
        **_physics_columns(physics),
        **_queue_columns(len(jobs), most_running),
        **_log_columns(len(jobs) + most_running, topology.num_gpus * max_tenants),
        counts=_ints(7),
        clock=np.array([0.0, np.inf]),
        rules=np.array([restart_s, float(max_forwards)]),
    )


def _floats(size: int, value: float = 0.0) -> FloatArray:
    return np.full(size, value)


def _ints(size: int, value: int = 0) -> IntArray:
    return np.full(size, value, dtype=np.int64)


def _job_columns(jobs: JobTable) -> Columns:
    n = len(jobs)
    slot = np.concatenate([[0], np.cumsum(jobs.num_gpus)]).astype(np.int64)
    fixed: Columns = {
        "submit_s": np.ascontiguousarray(jobs.submit_s, dtype=np.float64),
        "num_gpus": np.ascontiguousarray(jobs.num_gpus, dtype=np.int64),
        "work_s": np.ascontiguousarray(jobs.duration_s, dtype=np.float64),
        "profile": np.ascontiguousarray(jobs.profile, dtype=np.int64),
        "slot": slot,
        "status": _ints(n, PENDING),
        "partition": np.array(jobs.home, dtype=np.int64),
        "first_start_s": _floats(n, np.nan),
        "finish_s": _floats(n, np.nan),
        "placed": _ints(int(slot[-1]), NO_JOB),
        "spread": np.zeros((n, 3), dtype=np.int64),
    }
    counters = {key: _ints(n) for key in ("forwards", "preemptions")}
    times = {
        key: _floats(n)
        for key in ("progress_s", "rate", "rated_s", "started_s", "run_s", "served_s", "resume_s",
                    "seen_progress_s", "attained_gpu_s")
    }  # fmt: skip
    return fixed | counters | times


def _cluster_columns(topology: Topology, max_tenants: int) -> Columns:
    g, s, r = topology.num_gpus, topology.num_servers, topology.num_racks
    return {
        "gpu_server": np.ascontiguousarray(topology.gpu_server, dtype=np.int64),
        "server_first_gpu": np.ascontiguousarray(topology.server_first_gpu, dtype=np.int64),
        "server_rack": np.ascontiguousarray(topology.server_rack, dtype=np.int64),
        "rack_first_server": np.searchsorted(topology.server_rack, np.arange(r + 1)),
        "tenants": _ints(g),
        "tenant": np.full((g, max_tenants), NO_JOB, dtype=np.int64),
        "server_free": np.array(topology.gpus_per_server, dtype=np.int64),
        "nic_jobs": _ints(s),
        "uplink_jobs": _ints(r),
        "seen_server": _ints(s, NO_JOB),
        "seen_rack": _ints(r, NO_JOB),
    }


def _physics_columns(physics: Physics) -> Columns:
    network = physics.network
    tables = {
        "compute_s": physics.catalogue.compute_s,
        "slowdown": physics.pairs.slowdown,
        "local_s": network.local_s,
        "server_s": network.server_s,
        "rack_s": network.rack_s,
        "nic_factor": network.nic_factor,
        "uplink_factor": network.uplink_factor,
    }
    columns: Columns = {
        key: np.ascontiguousarray(table, dtype=np.float64) for key, table in tables.items()
    }
    columns["feasible"] = np.ascontiguousarray(physics.pairs.feasible, dtype=np.bool_)
    return columns


def _queue_columns(num_jobs: int, most_running: int) -> Columns:
    return {
        "queue": _ints(num_jobs),
        "running": _ints(most_running),
        "running_at": _ints(num_jobs),
        "heap": _ints(most_running),
        "heap_at": _ints(num_jobs, NO_JOB),
        "heap_s": _floats(num_jobs),
        "dirty": _ints(num_jobs),
        "is_dirty": np.zeros(num_jobs, dtype=np.bool_),
    }


def _log_columns(most_events: int, most_gpus: int) -> Columns:
    """Room for more than twice what one call of the kernel can log (see `Recorder`)."""
    rows = 4 * most_events + 64
    ints = {key: _ints(rows) for key in ("log_kind", "log_job", "log_partition")}
    return {"log_s": _floats(rows), "log_gpus": _ints(4 * most_gpus + 64), **ints}
