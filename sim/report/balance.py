"""Where the GPU-seconds went, whether log and results agree on it, and fairness."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray
from sim.errors import SimulationError
from sim.report.job_times import (
    NAN,
    SLOWDOWN_BOUND_S,
    blocked_s,
    counted,
    jct_s,
    mean_of,
    percentile_of,
    queue_delay_s,
)
from sim.report.timeline import (
    available_over_time,
    competing_over_time,
    down_changes,
    finished,
    gpu_changes,
    gpus_over_time,
    hold_change,
    jobs_over_time,
    left_s,
    running_count,
    span_s,
    unusable_changes,
    withdrawn,
)
from sim.run import Run


@dataclass(frozen=True)
class Balance:
    """GPU-seconds of all jobs, held and where they went: all other parts sum up to `held`.

    The sums are over jobs, so a GPU with two tenants counts twice.
    """

    held: float  # between starts and ends of attempts, from the log
    useful: float  # duration x gang of the jobs that finished: work that lasts
    lost: float  # work of finished jobs that had to be done again; NaN if not measured
    restart: float  # restarts of finished jobs; NaN if not measured, and then part of overhead
    overhead: float  # the rest of what finished jobs held: interference, communication beyond the
    # most compact placement, GPUs slower than the durations' (faster: below 0), checkpoints
    withdrawn: float  # held by jobs that were withdrawn
    unfinished: float  # held by jobs that never left


def held_gpu_s(run: Run) -> FloatArray:
    """(J,) GPU-seconds that each job held, from the log; up to its end if it never stopped."""
    start_s, end_s = span_s(run)
    changes = gpu_changes(run.log)
    left_s = end_s - np.clip(changes.time_s, start_s, end_s)
    held: FloatArray = np.bincount(
        changes.job, weights=changes.change * left_s, minlength=len(run.jobs)
    ).astype(np.float64)
    return held


def ran_gpu_s(run: Run) -> FloatArray:
    """(J,) GPU-seconds that each job ran, from the results; elastic jobs need `run_gpu_s`."""
    return run.run_s * run.jobs.num_gpus if run.run_gpu_s is None else run.run_gpu_s


def balance_of(run: Run) -> Balance:
    """Split the GPU-seconds that jobs held."""
    held, done, gone = held_gpu_s(run), finished(run), withdrawn(run)
    gang = run.jobs.num_gpus.astype(np.float64)
    useful = float((run.jobs.duration_s * gang)[done].sum())
    lost = NAN if run.lost_s is None else float((run.lost_s * gang)[done].sum())
    restart = _restart_gpu_s(run)
    known = sum(part for part in (lost, restart) if not np.isnan(part))
    return Balance(
        held=float(held.sum()),
        useful=useful,
        lost=lost,
        restart=restart,
        overhead=float(held[done].sum()) - useful - known,
        withdrawn=float(held[gone].sum()),
        unfinished=float(held[~done & ~gone].sum()),
    )


def _restart_gpu_s(run: Run) -> float:
    if run.run_gpu_s is None or run.served_gpu_s is None:
        return NAN
    return float((run.run_gpu_s - run.served_gpu_s)[finished(run)].sum())


def balance_metrics(run: Run) -> dict[str, float]:
    """The balance, and the shares that interference and communication have in the time on GPUs."""
    balance = balance_of(run)
    return {
        **{f"{part}_gpu_s": gpu_s for part, gpu_s in vars(balance).items()},
        "goodput_frac": balance.useful / balance.held if balance.held > 0 else NAN,
        "interference_frac": share_of_run(run, run.interference_s),
        "comm_frac": share_of_run(run, run.comm_s),
        "comm_gpu_s": _gpu_s(run, run.comm_s),
    }


def share_of_run(run: Run, part_s: FloatArray | None) -> float:
    """GPU-seconds of `part_s` (J,) over those that all jobs ran; NaN if absent or nothing ran."""
    run_gpu_s = float(ran_gpu_s(run).sum())
    return _gpu_s(run, part_s) / run_gpu_s if run_gpu_s > 0 else NAN


def _gpu_s(run: Run, part_s: FloatArray | None) -> float:
    """GPU-seconds of `part_s` (J,), each job on as many GPUs as it had in the mean."""
    if part_s is None:
        return NAN
    gpus = ran_gpu_s(run) / np.where(run.run_s > 0, run.run_s, 1.0)  # (J,)
    return float((part_s * gpus).sum())


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
    comm_s, interference_s, lost_s = (
        np.zeros(len(run.jobs)) if part_s is None else part_s
        for part_s in (run.comm_s, run.interference_s, run.lost_s)
    )
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
    above 1 the job was worse off than with its 1/N of the cluster. Both count from when its parents
    were done. T_ideal is approximated: N is the mean number of jobs that waited for GPUs or held
    some meanwhile (itself included), its share is the mean number of available GPUs / N, and a gang
    larger than its share, in GPUs of which it asks for parts, is slowed down in proportion, as if
    it had the share by turns. So T_ideal = work x max(1, gang / share), work being `duration_s`, at
    least `SLOWDOWN_BOUND_S`; interference and network are left out of it.
    """
    took_s = jct_s(run) - blocked_s(run.jobs, run.finish_s)
    finish_s = np.where(np.isnan(took_s), run.jobs.submit_s, run.finish_s)
    stay_s = np.nan_to_num(took_s)
    jobs, gpus = (
        (steps.integral(finish_s) - steps.integral(finish_s - stay_s)) / np.maximum(stay_s, 1e-9)
        for steps in (competing_over_time(run), available_over_time(run))
    )
    share: FloatArray = np.maximum(gpus, 1e-9) / np.maximum(jobs, 1.0)
    work_s = np.maximum(run.jobs.duration_s, SLOWDOWN_BOUND_S)
    ideal_s: FloatArray = work_s * np.maximum(1.0, run.jobs.gang_gpus / share)
    return took_s / ideal_s


def fairness_metrics(run: Run) -> dict[str, float]:
    """Waits of home partitions, and finish-time fairness of the counted jobs."""
    wait_s = wait_by_partition_s(run)
    known = wait_s[~np.isnan(wait_s)]
    rho = finish_time_rho(run)[counted(run)]
    return {
        "partition_wait_max_s": float(known.max()) if len(known) else NAN,
        "partition_wait_jain": jain_index(wait_s),
        "finish_time_rho_mean": mean_of(rho),
        "finish_time_rho_p95": percentile_of(rho, 95),
        "finish_time_rho_max": percentile_of(rho, 100),
        "finish_time_unfair_frac": mean_of((rho > 1.0 + TOLERANCE).astype(np.float64)),
    }
