"""Shortest job first, by prediction."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import LEFT
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Sjf(QueueScheduler):
    """Jobs start in order of predicted duration; running jobs are left alone.

    With the oracle estimator this is the textbook SJF; ties go to the earlier job.
    """

    order_name = "sjf"
    order_needs = Signal.PREDICTION
    engine_code = LEFT

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, shortest predicted work left first."""
        left_s = view.jobs.predicted_remaining_s[view.queued]
        return view.queued[np.argsort(left_s, kind="stable")]
