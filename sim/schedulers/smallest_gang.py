"""Smallest gang first."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import SMALLEST_GANG
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class SmallestGang(QueueScheduler):
    """Jobs start in order of GPUs wanted, then of submission; knows nothing of durations."""

    order_name = "smallest_gang"
    order_needs = Signal.NONE
    engine_code = SMALLEST_GANG

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, fewest GPUs first."""
        return view.queued[np.argsort(view.jobs.num_gpus[view.queued], kind="stable")]
