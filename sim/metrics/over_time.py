"""Time series of a run: busy, shared and available GPUs, jobs that wait, jobs in the system."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.metrics.event_effects import system_change, wait_change
from sim.metrics.gpu_changes import GpuChanges, down_changes, gpu_changes
from sim.metrics.steps import Steps, steps_of_changes
from sim.run import Run


def span_s(run: Run) -> tuple[float, float]:
    """First submission and last event: the last finish, unless some jobs never finished."""
    return float(run.jobs.submit_s[0]), float(run.log.time_s[-1])


def utilisation_over_time(run: Run) -> Steps:
    """Share of the cluster's GPUs, down ones included, that have at least one tenant."""
    return gpus_over_time(gpu_changes(run.log), tenants=1).scaled(1.0 / run.topology.num_gpus)


def gpus_over_time(changes: GpuChanges, tenants: int) -> Steps:
    """Number of GPUs that have at least `tenants` tenants."""
    return steps_of_changes(changes.time_s, changes.gpus_with(tenants))


def available_over_time(run: Run) -> Steps:
    """Number of GPUs whose server is up; all of them from the first submission or event on."""
    changes = down_changes(run.log)
    first_s = min(span_s(run)[0], float(run.log.time_s[0]))
    change = np.concatenate([[run.topology.num_gpus], -changes.gpus_with(1)])
    return steps_of_changes(np.concatenate([[first_s], changes.time_s]), change)


def queue_over_time(run: Run) -> Steps:
    """Number of jobs that wait for GPUs: come, parents done, not left, holding none."""
    return _steps(run.log.time_s, wait_change(run))


def jobs_over_time(run: Run) -> Steps:
    """Number of jobs in the system, waiting or running."""
    return _steps(run.log.time_s, system_change(run.log))


def _steps(time_s: FloatArray, change: IntArray) -> Steps:
    counts = change != 0
    return steps_of_changes(time_s[counts], change[counts])
