"""Time series of a run: busy and shared GPUs, jobs that wait, jobs in the system."""

import numpy as np

from sim.event_log import EventLog, Kind
from sim.metrics.gpu_changes import GpuChanges, gpu_changes
from sim.metrics.steps import Steps, steps_of_changes
from sim.run import Run

_WAITING = {Kind.ARRIVAL: 1, Kind.PREEMPT: 1, Kind.START: -1}
_IN_SYSTEM = {Kind.ARRIVAL: 1, Kind.FINISH: -1}


def span_s(run: Run) -> tuple[float, float]:
    """First submission and last event: the last finish, unless some jobs never finished."""
    return float(run.jobs.submit_s[0]), float(run.log.time_s[-1])


def utilisation_over_time(run: Run) -> Steps:
    """Share of the cluster's GPUs that have at least one tenant."""
    return gpus_over_time(gpu_changes(run.log), tenants=1).scaled(1.0 / run.topology.num_gpus)


def gpus_over_time(changes: GpuChanges, tenants: int) -> Steps:
    """Number of GPUs that have at least `tenants` tenants."""
    return steps_of_changes(changes.time_s, changes.gpus_with(tenants))


def queue_over_time(run: Run) -> Steps:
    """Number of jobs that have arrived, are not finished and hold no GPUs."""
    return _count_jobs(run.log, _WAITING)


def jobs_over_time(run: Run) -> Steps:
    """Number of jobs in the system, waiting or running."""
    return _count_jobs(run.log, _IN_SYSTEM)


def _count_jobs(log: EventLog, effect: dict[Kind, int]) -> Steps:
    change = np.zeros(len(log.kind), dtype=np.int64)
    for kind, value in effect.items():
        change[log.kind == kind] = value
    counts = change != 0
    return steps_of_changes(log.time_s[counts], change[counts])
