"""Does the event log say the same as the per-job results? Two independent accounts must agree."""

import numpy as np

from sim.arrays import BoolArray, FloatArray
from sim.errors import SimulationError
from sim.metrics.balance import held_gpu_s, ran_gpu_s
from sim.metrics.event_effects import hold_change
from sim.metrics.gpu_changes import down_changes, gpu_changes, running_count, unusable_changes
from sim.metrics.leaving import left_s
from sim.metrics.over_time import gpus_over_time, jobs_over_time, span_s
from sim.run import Run

TOLERANCE = 1e-6
"""Relative gap that rounding may explain; a lost or doubled event makes a far larger one."""


def littles_law_gap(run: Run) -> float:
    """Relative gap between the mean number of jobs in the system and arrival rate x mean stay.

    The first comes from the log, the second from the per-job results, over all jobs and from the
    first submission to the last event; a job leaves when it finishes or is withdrawn, and one that
    does neither counts up to the last event. Both sides are taken times the span.
    Source: Little, "A proof for the queuing formula L = lambda W", 1961.
    """
    _, end_s = span_s(run)
    in_system_s = float(jobs_over_time(run).integral(np.array([end_s]))[0])
    left = left_s(run)
    spent_s = float(np.sum(np.where(np.isnan(left), end_s, left) - run.jobs.submit_s))
    return abs(in_system_s - spent_s) / spent_s if spent_s > 0 else abs(in_system_s)


def held_s(run: Run) -> FloatArray:
    """(J,) seconds between starts and ends of attempts in the log; NaN if it never left."""
    start_s, _ = span_s(run)
    change = hold_change(run.log)
    events = np.flatnonzero(change)
    seconds = np.bincount(
        run.log.job[events],
        weights=-change[events] * (run.log.time_s[events] - start_s),
        minlength=len(run.jobs),
    )
    return np.where(np.isnan(left_s(run)), np.nan, seconds)


def check_run(run: Run) -> None:
    """Refuse a run whose log and results disagree, or that made or lost GPU time.

    Raises:
        SimulationError: no jobs; times that go back; a job that starts while it runs or stops
            while it does not; Little's law broken; a job whose time on GPUs, or GPU-seconds,
            differ between results and log; parts of run time below 0 or above the whole; jobs
            that hold GPUs of a server that is down.
    """
    if not len(run.jobs) or not len(run.log.time_s):
        raise SimulationError(f"run of {run.scheduler}: no jobs, so there is nothing to measure")
    _check_order(run)
    gap = littles_law_gap(run)
    if gap > TOLERANCE:
        raise SimulationError(
            f"run of {run.scheduler}: Little's law is off by {gap:.2e} of its value: the event log "
            "and the finish times disagree, so an arrival or a finish is lost, doubled or late"
        )
    _check_time_on_gpus(run)
    _check_alternation(run)
    _check_gpu_seconds(run)
    _check_parts(run)
    _check_down(run)


def _check_order(run: Run) -> None:
    back = np.flatnonzero(np.diff(run.log.time_s) < 0)
    if len(back):
        event = int(back[0]) + 1
        raise SimulationError(
            f"run of {run.scheduler}: event {event} of the log is at "
            f"t={run.log.time_s[event]:.6f} s, before the one that precedes it"
        )


def _check_time_on_gpus(run: Run) -> None:
    job = _worst(run, held_s(run) - run.run_s, np.ones(len(run.jobs)))
    if job is not None:
        raise SimulationError(
            f"run of {run.scheduler}: job {run.jobs.job_id[job]} has run_s {run.run_s[job]:.6f}, "
            f"its log says {held_s(run)[job]:.6f} s on GPUs; a start or an end is not logged"
        )


def _check_alternation(run: Run) -> None:
    """A job starts only while it holds nothing, and stops only while it runs."""
    change = hold_change(run.log)
    events = np.flatnonzero(change)
    runs = running_count(run.log.job[events], change[events])
    bad = events[(runs < 0) | (runs > 1)]
    if len(bad):
        event = int(bad[0])
        does = "starts while it runs" if change[event] > 0 else "stops while it does not run"
        raise SimulationError(
            f"run of {run.scheduler}: job {run.jobs.job_id[run.log.job[event]]} {does} at "
            f"t={run.log.time_s[event]:.6f} s (event {event}); an event is lost or doubled"
        )


def _check_gpu_seconds(run: Run) -> None:
    """GPU-seconds given out (log, GPU by GPU) are those that jobs ran (results)."""
    if run.jobs.elastic is not None and run.run_gpu_s is None:
        return  # gangs vary, and the results do not say how
    held, ran = held_gpu_s(run), ran_gpu_s(run)
    off = np.where(np.isnan(left_s(run)), np.nan, held - ran)
    job = _worst(run, off, run.jobs.num_gpus.astype(np.float64))
    if job is not None:
        raise SimulationError(
            f"run of {run.scheduler}: job {run.jobs.job_id[job]} held {held[job]:.6f} GPU-seconds "
            f"in the log, but ran {ran[job]:.6f}; GPU-seconds are not conserved"
        )


def _check_parts(run: Run) -> None:
    """Communication and interference are parts of the time on GPUs; work lost is not negative."""
    none = np.zeros(len(run.jobs))
    comm_s = none if run.comm_s is None else run.comm_s
    interference_s = none if run.interference_s is None else run.interference_s
    lost_s = none if run.lost_s is None else run.lost_s
    slack_s = TOLERANCE * max(1.0, span_s(run)[1] - span_s(run)[0])
    ran = ~np.isnan(left_s(run))  # the last attempt of the others is not in run_s yet
    for name, bad in {
        "comm_s": _below_zero(comm_s, slack_s),
        "interference_s": _below_zero(interference_s, slack_s),
        "lost_s": _below_zero(lost_s, slack_s),
        "comm_s + interference_s": ran & (comm_s + interference_s > run.run_s + slack_s),
    }.items():
        if bad.any():
            job = int(np.argmax(bad))
            raise SimulationError(
                f"run of {run.scheduler}: job {run.jobs.job_id[job]} has comm_s {comm_s[job]:.6f}, "
                f"interference_s {interference_s[job]:.6f}, lost_s {lost_s[job]:.6f} and run_s "
                f"{run.run_s[job]:.6f}: {name} is not from 0 to its whole"
            )


def _below_zero(part_s: FloatArray, slack_s: float) -> BoolArray:
    return ~(part_s >= -slack_s)


def _check_down(run: Run) -> None:
    """Busy time + down time = time of either: nobody runs on a server that is down."""
    down = down_changes(run.log)
    if not len(down.time_s):
        return
    start_s, end_s = span_s(run)
    busy_s, down_s, either_s = (
        gpus_over_time(changes, tenants=1).mean(start_s, end_s) * (end_s - start_s)
        for changes in (gpu_changes(run.log), down, unusable_changes(run.log))
    )
    both_s = busy_s + down_s - either_s
    if abs(both_s) > TOLERANCE * max(1.0, either_s):
        raise SimulationError(
            f"run of {run.scheduler}: jobs hold GPUs of servers that are down for {both_s:.3f} "
            "GPU-seconds; an EVICT is lost or late"
        )


def _worst(run: Run, off: FloatArray, scale: FloatArray) -> int | None:
    """The job with the largest gap `off` (J,), if that is beyond rounding; NaN is no gap."""
    start_s, end_s = span_s(run)
    relative = np.nan_to_num(np.abs(off), nan=0.0) / scale
    job = int(np.argmax(relative))
    return job if relative[job] > TOLERANCE * max(1.0, end_s - start_s) else None
