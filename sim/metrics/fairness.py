"""Fairness between partitions, and between jobs: finish-time fairness."""

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.job_times import SLOWDOWN_BOUND_S, counted, jct_s, queue_delay_s
from sim.metrics.over_time import available_over_time, jobs_over_time
from sim.run import Run

NAN = float("nan")


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
        return NAN
    squares = float(np.sum(values**2))
    return float(np.sum(values)) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def finish_time_rho(run: Run) -> FloatArray:
    """(J,) JCT / the JCT that an equal share of the cluster would have given; NaN if unfinished.

    Finish-time fairness of Mahajan and others, "Themis", NSDI 2020: rho = T_shared / T_ideal;
    above 1 the job was worse off than with its 1/N of the cluster. T_ideal is approximated: N is
    the mean number of jobs in the system while the job was in it (itself included), its share is
    the mean number of available GPUs / N, and a gang larger than its share is slowed down in
    proportion, as if it had the share by turns. So T_ideal = work x max(1, gang / share), work
    being `duration_s`, at least `SLOWDOWN_BOUND_S`; interference and network are left out of it.
    """
    jct = jct_s(run)
    submit_s = run.jobs.submit_s
    finish_s = np.where(np.isnan(jct), submit_s, submit_s + np.nan_to_num(jct))
    stay_s = np.maximum(finish_s - submit_s, 1e-9)
    jobs, gpus = (
        (steps.integral(finish_s) - steps.integral(submit_s)) / stay_s
        for steps in (jobs_over_time(run), available_over_time(run))
    )
    share: FloatArray = np.maximum(gpus, 1e-9) / np.maximum(jobs, 1.0)
    work_s = np.maximum(run.jobs.duration_s, SLOWDOWN_BOUND_S)
    ideal_s: FloatArray = work_s * np.maximum(1.0, run.jobs.num_gpus / share)
    return jct / ideal_s


def fairness_metrics(run: Run) -> dict[str, float]:
    """Waits of home partitions, and finish-time fairness of the counted jobs."""
    wait_s = wait_by_partition_s(run)
    known = wait_s[~np.isnan(wait_s)]
    rho = finish_time_rho(run)[counted(run)]
    some = len(rho) > 0
    return {
        "partition_wait_max_s": float(known.max()) if len(known) else NAN,
        "partition_wait_jain": jain_index(wait_s),
        "finish_time_rho_mean": float(rho.mean()) if some else NAN,
        "finish_time_rho_p95": float(np.percentile(rho, 95)) if some else NAN,
        "finish_time_rho_max": float(rho.max()) if some else NAN,
        "finish_time_unfair_frac": float((rho > 1.0).mean()) if some else NAN,
    }
