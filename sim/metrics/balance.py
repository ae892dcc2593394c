"""Where the GPU-seconds went: work that lasts, work lost, and what running cost beside it."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.gpu_changes import gpu_changes
from sim.metrics.leaving import finished, withdrawn
from sim.metrics.over_time import span_s
from sim.run import Run

NAN = float("nan")


@dataclass(frozen=True)
class Balance:
    """GPU-seconds of all jobs, held and where they went: all other parts sum up to `held`.

    The sums are over jobs, so a GPU with two tenants counts twice.
    """

    held: float  # between starts and ends of attempts, from the log
    useful: float  # duration x gang of the jobs that finished: work at speed 1 that lasts
    lost: float  # work of finished jobs that had to be done again; NaN if not measured
    restart: float  # restarts of finished jobs; NaN if not measured, and then part of overhead
    overhead: float  # the rest of what finished jobs held: interference, communication beyond the
    # most compact placement, slower GPU types, checkpoints; below 0 where GPUs are faster
    withdrawn: float  # held by jobs that were withdrawn
    unfinished: float  # held by jobs that never left


def held_gpu_s(run: Run) -> FloatArray:
    """(J,) GPU-seconds that each job held, from the log; up to its end if it never stopped."""
    start_s, end_s = span_s(run)
    changes = gpu_changes(run.log)
    change = (changes.after - changes.before).astype(np.float64)
    left_s = end_s - np.clip(changes.time_s, start_s, end_s)
    held: FloatArray = np.bincount(
        changes.job, weights=change * left_s, minlength=len(run.jobs)
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
        "held_gpu_s": balance.held,
        "useful_gpu_s": balance.useful,
        "lost_gpu_s": balance.lost,
        "restart_gpu_s": balance.restart,
        "overhead_gpu_s": balance.overhead,
        "withdrawn_gpu_s": balance.withdrawn,
        "unfinished_gpu_s": balance.unfinished,
        "goodput_frac": balance.useful / balance.held if balance.held > 0 else NAN,
        "interference_frac": share_of_run(run, run.interference_s),
        "comm_frac": share_of_run(run, run.comm_s),
    }


def share_of_run(run: Run, part_s: FloatArray | None) -> float:
    """GPU-seconds of `part_s` (J,) over those that all jobs ran; NaN if absent or nothing ran."""
    run_gpu_s = float(ran_gpu_s(run).sum())
    if part_s is None or run_gpu_s <= 0:
        return NAN
    gpus = ran_gpu_s(run) / np.where(run.run_s > 0, run.run_s, 1.0)  # (J,) in the mean
    return float((part_s * gpus).sum()) / run_gpu_s
