"""Fairness between partitions: do the jobs of one home wait longer than those of another?"""

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.job_times import counted, queue_delay_s
from sim.run import Run


def wait_by_partition_s(run: Run) -> FloatArray:
    """(partitions,) mean queueing delay of the counted jobs by home; NaN for a home without any."""
    chosen = counted(run)
    partitions = int(run.partition_of_server.max()) + 1
    home = run.jobs.home[chosen]
    jobs = np.bincount(home, minlength=partitions).astype(np.float64)
    total_s = np.bincount(home, weights=queue_delay_s(run)[chosen], minlength=partitions)
    return total_s / np.where(jobs > 0, jobs, np.nan)


def jain_index(values: FloatArray) -> float:
    """(sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything.

    Values that are NaN are left out; 1 if all are 0, NaN if there is none.
    Source: Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan")
    squares = float(np.sum(values**2))
    return float(np.sum(values)) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def fairness_metrics(run: Run) -> dict[str, float]:
    """Longest mean wait of a home partition, and Jain's index of the mean waits."""
    wait_s = wait_by_partition_s(run)
    known = wait_s[~np.isnan(wait_s)]
    return {
        "partition_wait_max_s": float(known.max()) if len(known) else float("nan"),
        "partition_wait_jain": jain_index(wait_s),
    }
