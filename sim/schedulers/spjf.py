"""Shortest predicted job first: the shortest gang blocks the queue until it fits."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import LEFT
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Spjf(QueueScheduler):
    """Waiting jobs in order of predicted duration; whoever does not fit blocks those behind it.

    Baseline SPJF of A-SRPT (Luo et al., INFOCOM 2025), which leaves the details open; chosen
    here: the order counts what is left of a job that queues again; ties go to the earlier job.
    `sjf` is the same order that lets others pass unless told otherwise.
    """

    order_name = "spjf"
    order_needs = Signal.PREDICTION
    engine_code = LEFT

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, shortest predicted work left first."""
        left_s = view.jobs.predicted_remaining_s[view.queued]
        return view.queued[np.argsort(left_s, kind="stable")]
