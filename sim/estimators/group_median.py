"""The median of the same group's finished runs before a job is submitted."""

import numpy as np

from sim.arrays import FloatArray
from sim.estimators.prior import checked_prior_s
from sim.estimators.recurrence import everyone, first_known, group_keys, past_of, user_keys
from sim.traces.trace import Trace


class GroupMedian:
    """Predicts the median duration of the same group's finished runs.

    Groups are what the trace says, or the finest that it knows instead (`group_keys`). A group
    without a finished run is predicted as its user's median, then as the median of all finished
    jobs, then as `prior_s`. Only the jobs given are known: a window has no history before it.
    """

    information = "predicted"

    def __init__(self, *, prior_s: float) -> None:
        """`prior_s`: seconds predicted before any job has finished.

        Raises:
            TraceError: it is not a finite number above 0.
        """
        self._prior_s = checked_prior_s(prior_s)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds."""
        del rng
        group = past_of(trace, group_keys(trace)).median_s
        user = past_of(trace, user_keys(trace)).median_s
        return first_known([group, user, past_of(trace, everyone(trace)).median_s], self._prior_s)
