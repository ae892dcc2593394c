"""What rows are judged by: jobs of a simulated run, and of the trace as it happened."""

import numpy as np

from gpuyard.advice.aims import NAN, Blocks, Told
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import JobTable
from sim.metrics.event_effects import gpu_changes
from sim.metrics.job_times import SLOWDOWN_BOUND_S, counted, jct_s, queue_delay_s, slowdown
from sim.metrics.timeline import Steps, gpus_over_time, steps_of_changes
from sim.run import Kind, Run
from sim.topology.topology import Topology

HOUR_S = 3600.0


def large_gang(jobs: JobTable, topology: Topology, given: int | None) -> int:
    """GPUs from which a gang is large: `given`, else more than a server has.

    Where no job is that large, a whole server; where none has that either, the largest gang.
    """
    if given is not None:
        return given
    server = int(topology.gpus_per_server.max())
    most = int(jobs.num_gpus.max())
    return server + 1 if most > server else min(server, most)


def told_of_run(run: Run, blocks: Blocks, large: int) -> Told:
    """Of the finished, measured jobs."""
    chosen = counted(run)
    busy = gpus_over_time(gpu_changes(run.log), tenants=1)
    return Told(
        block=blocks.of_job[chosen],
        jct_s=jct_s(run)[chosen],
        wait_s=queue_delay_s(run)[chosen],
        slowdown=slowdown(run)[chosen],
        large=run.jobs.num_gpus[chosen] >= large,
        user=users_of(run.jobs)[chosen],
        busy_gpu_s=_by_block(busy, blocks),
        offered_gpu_s=_offered(run.topology, blocks),
        lost_gpu_h=_lost_gpu_h(run, blocks),
    )


def told_of_trace(
    jobs: JobTable, waited_s: FloatArray, topology: Topology, blocks: Blocks, large: int
) -> Told:
    """Of the measured jobs as the trace has them.

    Args:
        jobs: J jobs.
        waited_s: (J,) from submission to start as it was; NaN: the job never began.
        topology: the cluster that GPU use is told of.
        blocks: of the submissions.
        large: GPUs from which a gang is large.
    """
    chosen = jobs.measured & ~np.isnan(waited_s)
    jct = waited_s + jobs.duration_s
    busy = _busy_as_it_was(jobs, waited_s)
    return Told(
        block=blocks.of_job[chosen],
        jct_s=jct[chosen],
        wait_s=waited_s[chosen],
        slowdown=(jct / np.maximum(jobs.duration_s, SLOWDOWN_BOUND_S))[chosen],
        large=jobs.num_gpus[chosen] >= large,
        user=users_of(jobs)[chosen],
        busy_gpu_s=_by_block(busy, blocks),
        offered_gpu_s=_offered(topology, blocks),
        lost_gpu_h=np.full(blocks.count, NAN),
    )


def peak_gpus(jobs: JobTable, waited_s: FloatArray) -> int:
    """GPUs that ran at once in the trace, at most."""
    return int(_busy_as_it_was(jobs, waited_s).value.max(initial=0.0))


def _busy_as_it_was(jobs: JobTable, waited_s: FloatArray) -> Steps:
    began = ~np.isnan(waited_s)
    start_s = (jobs.submit_s + waited_s)[began]
    end_s, gpus = start_s + jobs.duration_s[began], jobs.num_gpus[began]
    time_s, change = np.concatenate([start_s, end_s]), np.concatenate([gpus, -gpus])
    order = np.argsort(time_s, kind="stable")
    return steps_of_changes(time_s[order], change[order])


def users_of(jobs: JobTable) -> IntArray:
    """(J,) users, where none is known virtual clusters; -1: unknown."""
    if jobs.identity is None:
        return np.full(len(jobs), -1, dtype=np.int64)
    user = jobs.identity.user
    return user if np.any(user >= 0) else jobs.identity.vc


def stops_of(run: Run) -> int:
    """How often measured jobs lost their GPUs to others, leases that ran out included."""
    stopped = np.isin(run.log.kind, (Kind.PREEMPT, Kind.EXPIRE))
    return int(np.count_nonzero(run.jobs.measured[run.log.job[stopped]]))


def _lost_gpu_h(run: Run, blocks: Blocks) -> FloatArray:
    """(B,) GPU-hours of restarts and of work done twice."""
    lost = np.zeros(len(run.jobs))
    if run.run_gpu_s is not None and run.served_gpu_s is not None:
        lost += np.maximum(run.run_gpu_s - run.served_gpu_s, 0.0)
    if run.lost_s is not None:
        lost += run.lost_s * run.jobs.num_gpus
    chosen: BoolArray = blocks.of_job >= 0
    weights = lost[chosen] / HOUR_S
    return np.bincount(blocks.of_job[chosen], weights, blocks.count).astype(np.float64)


def _by_block(busy: Steps, blocks: Blocks) -> FloatArray:
    return np.diff(busy.integral(blocks.edge_s))


def _offered(topology: Topology, blocks: Blocks) -> FloatArray:
    offered: FloatArray = np.diff(blocks.edge_s) * topology.num_gpus
    return offered
