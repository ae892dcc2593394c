"""Predictions from the finished runs of the same group before a job is submitted."""

from abc import ABC, abstractmethod

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.estimators.prior import checked_prior_s
from sim.estimators.recurrence import Past, everyone, first_known, group_keys, past_of, user_keys
from sim.traces.trace import Trace


class PastOfGroup(ABC):
    """Predicts from the group's finished runs what the subclass makes of them.

    Groups are what the trace says, or the finest that it knows instead (`group_keys`). A group
    without a finished run is predicted as its user's median, then as the median of all finished
    jobs, then as `prior_s`. Runs outside the window count too (`estimate_rows`).
    """

    information = "predicted"

    def __init__(self, *, prior_s: float) -> None:
        """`prior_s`: seconds predicted before any job has finished.

        Raises:
            TraceError: it is not a finite number above 0.
        """
        self._prior_s = checked_prior_s(prior_s)

    @abstractmethod
    def of_group(self, past: Past) -> FloatArray:
        """(K,) seconds, from what is known of each job's group; NaN where nothing is."""

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds, from the jobs of `trace` alone."""
        return self.estimate_rows(trace, np.arange(len(trace)), rng)

    def estimate_rows(self, trace: Trace, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(K,) predicted seconds of the jobs at `rows`, from all finished jobs of `trace`."""
        del rng
        group = self.of_group(past_of(trace, group_keys(trace), rows))
        user = past_of(trace, user_keys(trace), rows).median_s
        all_s = past_of(trace, everyone(trace), rows).median_s
        return first_known([group, user, all_s], self._prior_s)
