"""Work-conserving scan in order of predicted duration."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import LEFT
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class WcsDuration(QueueScheduler):
    """Scans all waiting jobs in order of predicted duration and starts every one that fits.

    Baseline WCS-Duration of A-SRPT (Luo et al., INFOCOM 2025), which leaves the details open;
    chosen here: the order counts what is left of a job that queues again; ties go to the
    earlier job.
    """

    order_name = "wcs_duration"
    order_needs = Signal.PREDICTION
    engine_code = LEFT

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, shortest predicted work left first."""
        left_s = view.jobs.predicted_remaining_s[view.queued]
        return view.queued[np.argsort(left_s, kind="stable")]
