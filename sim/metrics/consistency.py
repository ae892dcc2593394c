"""Does the event log say the same as the per-job results? Two independent accounts must agree."""

import numpy as np

from sim.arrays import FloatArray
from sim.errors import SimulationError
from sim.event_log import Kind
from sim.metrics.over_time import jobs_over_time, span_s
from sim.run import Run

TOLERANCE = 1e-6
"""Relative gap that rounding may explain; a lost or doubled event makes a far larger one."""


def littles_law_gap(run: Run) -> float:
    """Relative gap between the mean number of jobs in the system and arrival rate x mean JCT.

    The first comes from the log, the second from the per-job results, over all jobs and from the
    first submission to the last event; an unfinished job counts up to the last event. Both sides
    are taken times the span. Source: Little, "A proof for the queuing formula L = lambda W", 1961.
    """
    start_s, end_s = span_s(run)
    in_system_s = float(jobs_over_time(run).integral(np.array([end_s]))[0])
    left_s = np.where(np.isnan(run.finish_s), end_s, run.finish_s)
    spent_s = float(np.sum((left_s - start_s) - (run.jobs.submit_s - start_s)))
    return abs(in_system_s - spent_s) / spent_s if spent_s > 0 else abs(in_system_s)


def held_s(run: Run) -> FloatArray:
    """(J,) seconds between starts and ends of attempts in the log; NaN if never finished."""
    start_s, _ = span_s(run)
    sign = np.zeros(len(run.log.kind))
    sign[run.log.kind == Kind.START] = -1.0
    sign[(run.log.kind == Kind.FINISH) | (run.log.kind == Kind.PREEMPT)] = 1.0
    seconds = np.bincount(
        run.log.job, weights=sign * (run.log.time_s - start_s), minlength=len(run.jobs)
    )
    return np.where(np.isnan(run.finish_s), np.nan, seconds)


def check_run(run: Run) -> None:
    """Refuse a run whose log and results disagree.

    Raises:
        SimulationError: no jobs, Little's law broken, or `run_s` of a job differs from its log.
    """
    if not len(run.jobs) or not len(run.log.time_s):
        raise SimulationError(f"run of {run.scheduler}: no jobs, so there is nothing to measure")
    gap = littles_law_gap(run)
    if gap > TOLERANCE:
        raise SimulationError(
            f"run of {run.scheduler}: Little's law is off by {gap:.2e} of its value: the event log "
            "and the finish times disagree, so an arrival or a finish is lost, doubled or late"
        )
    start_s, end_s = span_s(run)
    off_s = np.nan_to_num(np.abs(held_s(run) - run.run_s), nan=0.0)
    job = int(np.argmax(off_s))
    if off_s[job] > TOLERANCE * max(1.0, end_s - start_s):
        raise SimulationError(
            f"run of {run.scheduler}: job {run.jobs.job_id[job]} has run_s {run.run_s[job]:.6f}, "
            f"its log says {held_s(run)[job]:.6f} s on GPUs; a start or an end is not logged"
        )
