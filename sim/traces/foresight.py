"""Estimates for the jobs of a window, from all that ran before them in the cluster of the trace.

A window shows a part of what its cluster ran. Jobs submitted before it begins, jobs that thinning
leaves out and jobs too large for the simulated cluster ran there all the same, so predictors may
learn from them. They do on the trace's own clock and its own durations: before submission times
are scaled to a load and before caps, which belong to the simulated cluster. The caps then hold for
what is predicted as well.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError
from sim.protocols import DurationEstimator, HistoryEstimator
from sim.traces.trace import Trace


def foreseen(
    estimator: DurationEstimator,
    trace: Trace,
    history: Trace,
    limits_s: tuple[float | None, float | None],
    rng: np.random.Generator,
) -> FloatArray:
    """(J,) predicted duration_s; NaN where there is no prediction.

    Args:
        estimator: one without history is asked for the capped durations of `trace` alone.
        trace: J >= 1 jobs after caps.
        history: all jobs of the trace as read, those of `trace` (by name) among them.
        limits_s: least and largest duration of a job, None where there is none.
        rng: of the estimates.

    Raises:
        TraceError: two jobs of `history` have one name, or a job of `trace` is not among them.
    """
    if not isinstance(estimator, HistoryEstimator):
        return estimator.estimate(trace, rng)
    rows = rows_of(trace, history)
    found = estimator.estimate_rows(_seen(history, int(rows.max()) + 1), rows, rng)
    low, high = limits_s
    return np.clip(found, 0.0 if low is None else low, np.inf if high is None else high)


def rows_of(trace: Trace, history: Trace) -> IntArray:
    """(J,) where the jobs of `trace` stand in `history`.

    Raises:
        TraceError: two jobs of `history` have one name, or a job of `trace` is not among them.
    """
    place = {name: row for row, name in enumerate(history.job_id)}
    if len(place) < len(history):
        raise TraceError(f"trace {history.name}: two jobs have one name; names must be unique")
    missing = next((name for name in trace.job_id if name not in place), None)
    if missing is not None:
        raise TraceError(f"job {missing}: not a job of trace {history.name}, its own history")
    return np.array([place[name] for name in trace.job_id], dtype=np.int64)


def _seen(history: Trace, jobs: int) -> Trace:
    """The first `jobs` jobs, with what predictors may read of them."""
    return Trace(
        name=history.name,
        job_id=history.job_id[:jobs],
        submit_s=history.submit_s[:jobs],
        num_gpus=history.num_gpus[:jobs],
        duration_s=history.duration_s[:jobs],
        user=history.user[:jobs],
        vc=history.vc[:jobs],
        group=None if history.group is None else history.group[:jobs],
    )
