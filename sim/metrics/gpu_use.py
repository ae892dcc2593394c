"""How long each GPU was busy or away, and how many jobs waited in each partition."""

import numpy as np

from sim.arrays import FloatArray
from sim.event_log import Kind
from sim.metrics.event_effects import wait_change
from sim.metrics.gpu_changes import GpuChanges, down_changes, gpu_changes
from sim.metrics.steps import Steps, steps_of_changes
from sim.run import Run


def busy_frac_by_gpu(run: Run, *, start_s: float, end_s: float) -> FloatArray:
    """(G,) share of [start_s, end_s] during which the GPU had a tenant; 0 or 1 at an instant."""
    return _share(gpu_changes(run.log), run.topology.num_gpus, start_s, end_s)


def down_frac_by_gpu(run: Run, *, start_s: float, end_s: float) -> FloatArray:
    """(G,) share of [start_s, end_s] during which the GPU's server was down."""
    return _share(down_changes(run.log), run.topology.num_gpus, start_s, end_s)


def _share(changes: GpuChanges, gpus: int, start_s: float, end_s: float) -> FloatArray:
    """(gpus,) share of the time with at least one holder."""
    change = changes.gpus_with(1)
    if end_s <= start_s:
        past = changes.time_s <= start_s
        held = np.bincount(changes.gpu[past], weights=change[past], minlength=gpus)
        return held.astype(np.float64)
    left_s = end_s - np.clip(changes.time_s, start_s, end_s)
    busy_s = np.bincount(changes.gpu, weights=change * left_s, minlength=gpus)
    return np.clip(busy_s / (end_s - start_s), 0.0, 1.0)


def queue_by_partition(run: Run) -> list[Steps]:
    """(partitions,) number of jobs that wait in each partition, over time."""
    log = run.log
    change = wait_change(run)
    rows = np.flatnonzero((change != 0) | (log.kind == Kind.FORWARD))
    forward = log.kind[rows] == Kind.FORWARD
    by_job = np.argsort(log.job[rows], kind="stable")
    before = np.empty(len(rows), dtype=np.int64)  # partition before the event
    before[by_job] = np.concatenate([[0], log.partition[rows][by_job][:-1]])
    found = []
    for partition in range(int(run.partition_of_server.max()) + 1):
        came = (log.partition[rows] == partition) & (forward | (change[rows] > 0))
        went = (before == partition) & (forward | (change[rows] < 0))
        moved = came.astype(np.int64) - went
        chosen = moved != 0
        found.append(steps_of_changes(log.time_s[rows][chosen], moved[chosen]))
    return found
