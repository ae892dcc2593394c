"""The median of the same group's finished runs before a job is submitted."""

from sim.arrays import FloatArray
from sim.estimators.past_of_group import PastOfGroup
from sim.estimators.recurrence import Past


class GroupMedian(PastOfGroup):
    """Predicts the median duration of the same group's finished runs (see `PastOfGroup`)."""

    def of_group(self, past: Past) -> FloatArray:
        """Their median."""
        return past.median_s
