"""The time limit that a job's user asked for: what a batch system knows before anything has run."""

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.traces.option_rules import check_number
from sim.traces.trace import Trace


class LimitEstimator:
    """Predicts each job's time limit, mostly far above what it then takes.

    A job without a limit is predicted as `unlimited_s`, and where that is None as the longest limit
    among the jobs at hand: nobody may count on it to be shorter.
    """

    information = "limit"

    def __init__(self, *, unlimited_s: float | None) -> None:
        """`unlimited_s`: seconds predicted for jobs without a limit, or None.

        Raises:
            TraceError: it is no finite number above 0.
        """
        check_number("unlimited_s", unlimited_s, above_zero=True, group="estimator")
        self._unlimited_s = unlimited_s

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) predicted seconds.

        Raises:
            TraceError: no job of the trace has a limit.
        """
        limit_s = np.full(len(trace), np.inf) if trace.limit_s is None else trace.limit_s
        given = np.isfinite(limit_s)
        if not given.any():
            raise TraceError(
                f"trace {trace.name}: no job has a time limit, so estimator=limit predicts "
                f"nothing; map the column (Timelimit of sacct, workload.columns.limit_s of a CSV), "
                f"or choose another estimator"
            )
        longest_s = limit_s[given].max()
        return np.where(given, limit_s, self._unlimited_s or longest_s)
