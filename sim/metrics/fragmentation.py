"""Fragmentation: GPUs that are free and yet of no use to the gangs that come or wait."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.metrics.event_effects import wait_change
from sim.metrics.gpu_changes import GpuChanges, running_count, unusable_changes
from sim.metrics.over_time import available_over_time, gpus_over_time, span_s
from sim.metrics.steps import Steps, combined, steps_of_changes
from sim.run import Run


def fragmentation_metrics(run: Run) -> dict[str, float]:
    """Both measures, over the whole run.

    `fragmented_free_frac`: share of free GPU time on servers where a gang drawn from the workload
    finds too few free GPUs for its smallest compact piece; NaN where no GPU was ever free.
    `gpu_idle_while_fitting_frac`: GPU time that is free while the smallest waiting gang is no
    larger than the number of free GPUs, over GPUs x span. No scheduler with one queue and free
    placement would have to leave it idle: it is lost to scattered GPUs, to partitions, to
    waiting for a compact placement, and to a head of the queue that blocks smaller jobs.
    """
    start_s, end_s = span_s(run)
    changes = unusable_changes(run.log)
    free_mean = _free(run, changes).mean(start_s, end_s)
    unusable = unusable_free_over_time(run, changes).mean(start_s, end_s)
    idle = idle_while_fitting(run, changes).mean(start_s, end_s)
    return {
        "fragmented_free_frac": unusable / free_mean if free_mean > 0 else float("nan"),
        "gpu_idle_while_fitting_frac": idle / run.topology.num_gpus,
    }


def unusable_free_over_time(run: Run, changes: GpuChanges) -> Steps:
    """Expected number of free GPUs that a gang drawn from the workload could not use.

    The fragmentation measure of Weng and others, "Beware of fragmentation", USENIX ATC 2023,
    for whole GPUs and gangs: the expectation, over the gang sizes of the trace, of
    the free GPUs on servers too full for it. A gang of m on servers of g GPUs needs m there if
    m < g, what is left after whole servers otherwise, and a whole server if nothing is left.
    """
    servers = run.topology.gpu_server[changes.gpu]
    change = changes.gpus_with(1)  # of GPUs that are not free
    taken = running_count(servers, change)
    sizes = run.topology.gpus_per_server
    table = _unusable_table(run.jobs.num_gpus, sizes)  # (sizes, free)
    size, free = sizes[servers], sizes[servers] - taken
    step = table[size, free] - table[size, free + change]
    at_first = float(table[sizes, sizes].sum())
    first_s = min(span_s(run)[0], float(run.log.time_s[0]))
    time_s = np.concatenate([[first_s], changes.time_s])
    value = np.cumsum(np.concatenate([[at_first], step]))
    last = np.append(time_s[1:] != time_s[:-1], True)
    return Steps(time_s[last], np.maximum(value[last], 0.0))


def idle_while_fitting(run: Run, changes: GpuChanges) -> Steps:
    """Free GPUs while the smallest waiting gang is no larger than their number, else 0.

    What Jeon and others call fragmentation delay, "Analysis of large-scale multi-tenant GPU
    clusters for DNN training workloads", USENIX ATC 2019, seen from the GPUs:
    resources are there in sum, and a job waits.
    """
    free = _free(run, changes)
    return combined(
        free, _smallest_waiting(run), lambda gpus, gang: np.where(gang <= gpus, gpus, 0)
    )


def _free(run: Run, changes: GpuChanges) -> Steps:
    available = available_over_time(run)
    unusable = gpus_over_time(changes, tenants=1)
    total = run.topology.num_gpus
    return Steps(*_from(available.time_s[0], unusable, total))


def _from(first_s: float, unusable: Steps, total: int) -> tuple[FloatArray, FloatArray]:
    """Times and values of `total - unusable`, from `first_s` on."""
    time_s = np.union1d([first_s], unusable.time_s)
    return time_s, total - unusable.at(time_s)


def _smallest_waiting(run: Run) -> Steps:
    """Size of the smallest gang that waits; infinity where none waits."""
    change = wait_change(run)
    rows = np.flatnonzero(change)
    gang = run.jobs.num_gpus[run.log.job[rows]]
    time_s = run.log.time_s[rows]
    edges_s = np.unique(np.append(time_s, min(run.log.time_s[0], run.jobs.submit_s[0])))
    smallest = np.full(len(edges_s), np.inf)
    for size in np.unique(gang)[::-1].tolist():
        chosen = gang == size
        waiting = steps_of_changes(time_s[chosen], change[rows][chosen]).at(edges_s)
        smallest[waiting > 0] = size
    return Steps(edges_s, smallest)


def _unusable_table(gangs: IntArray, sizes: IntArray) -> FloatArray:
    """(largest server + 1, largest server + 1) expected unusable GPUs by server size and free GPUs.

    Args:
        gangs: (J,) gang sizes, whose shares are the workload.
        sizes: (S,) GPUs of each server.
    """
    largest = int(sizes.max())
    kinds, jobs = np.unique(gangs, return_counts=True)
    share = jobs / jobs.sum()
    free = np.arange(largest + 1)
    table = np.zeros((largest + 1, largest + 1))
    for size in np.unique(sizes).tolist():
        rest = kinds % size
        need = np.where(rest > 0, rest, size)  # (kinds,)
        too_few = free[:, None] < need[None, :]  # (free, kinds)
        table[size] = free * (too_few @ share)
    return table
