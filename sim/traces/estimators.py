"""Predictions by a rule: none, the user's limit, the truth, the truth blurred; and a prior."""

import math

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


class NoisyEstimator:
    """Predicts duration * exp(N(0, sigma)), independently for each job.

    A job of 0 seconds is predicted as 0 seconds.
    """

    information = "predicted"

    def __init__(self, *, sigma: float) -> None:
        """Take `sigma`, the standard deviation of the error in ln seconds (0 or more).

        Raises:
            TraceError: if sigma is negative or not finite.
        """
        if not (math.isfinite(sigma) and sigma >= 0):
            raise TraceError(f"estimator.sigma is {sigma}; it must be a finite number, 0 or more")
        self._sigma = float(sigma)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds; the noise of job j does not depend on its duration."""
        return trace.duration_s * np.exp(self._sigma * rng.standard_normal(len(trace)))


class NoEstimator:
    """Predicts nothing."""

    information = "none"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) NaN for every job."""
        return np.full(len(trace), np.nan)


class OracleEstimator:
    """Knows every duration."""

    information = "oracle"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) the durations themselves, in seconds, as a copy."""
        return trace.duration_s.copy()


def checked_prior_s(prior_s: float) -> float:
    """`prior_s` as a float.

    Raises:
        TraceError: it is not a finite number above 0.
    """
    if not (math.isfinite(prior_s) and prior_s > 0):
        raise TraceError(f"estimator.prior_s is {prior_s}; it must be a finite number above 0")
    return float(prior_s)
