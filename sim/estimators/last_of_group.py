"""The last run of the same group to finish before a job is submitted."""

from sim.arrays import FloatArray
from sim.estimators.past_of_group import PastOfGroup
from sim.estimators.recurrence import Past


class LastOfGroup(PastOfGroup):
    """Predicts how long the same group's run took that finished last (see `PastOfGroup`)."""

    def of_group(self, past: Past) -> FloatArray:
        """The last one."""
        return past.last_s
