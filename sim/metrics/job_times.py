"""What one job experienced: completion time, queueing delay, slowdown, stretch on the GPUs."""

import numpy as np

from sim.arrays import BoolArray, FloatArray
from sim.metrics.leaving import finished
from sim.run import Run

SLOWDOWN_BOUND_S = 10.0
"""Jobs shorter than this count as this long in slowdowns, so that tiny jobs do not rule the mean
(the bounded slowdown of Feitelson and others, "Theory and practice in parallel job scheduling",
JSSPP 1997)."""


def counted(run: Run) -> BoolArray:
    """(J,) jobs that job metrics count: in the measured part of the window, and finished.

    Finished means that all work was done: jobs that were withdrawn do not count, those that the
    trace calls failed or cancelled after all their work do.
    """
    return run.jobs.measured & finished(run)


def jct_s(run: Run) -> FloatArray:
    """(J,) job completion time: finish - submit; NaN if the job never finished."""
    return np.where(finished(run), run.finish_s, np.nan) - run.jobs.submit_s


def mean_jct_s(run: Run) -> float:
    """Mean JCT of the jobs that count; NaN if there is none."""
    found = jct_s(run)[counted(run)]
    return float(found.mean()) if len(found) else float("nan")


def queue_delay_s(run: Run) -> FloatArray:
    """(J,) all time in the system without GPUs: JCT - run_s, so re-queueing after preemption too.

    NaN if the job never finished. Rounding below 0 is cut off.
    """
    return np.maximum(jct_s(run) - run.run_s, 0.0)


def slowdown(run: Run) -> FloatArray:
    """(J,) JCT / max(duration_s, `SLOWDOWN_BOUND_S`); below 1 only for jobs under the bound."""
    return jct_s(run) / np.maximum(run.jobs.duration_s, SLOWDOWN_BOUND_S)


def run_stretch(run: Run) -> FloatArray:
    """(J,) run_s / duration_s: what interference, communication, GPU type and restarts cost.

    1 is the most compact exclusive placement on the reference GPU; NaN for a job of 0 seconds.
    """
    work_s = np.where(run.jobs.duration_s > 0, run.jobs.duration_s, np.nan)
    return run.run_s / work_s
