"""Smallest predicted workload first: duration times GPUs, head of line blocks."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import SERVICE
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Spwf(QueueScheduler):
    """Waiting jobs by predicted duration x GPUs; whoever does not fit blocks those behind it.

    Baseline SPWF of A-SRPT (Luo et al., INFOCOM 2025), which leaves the details open; chosen
    here: the workload counts what is left of a job that queues again; ties go to the earlier
    job.
    """

    order_name = "spwf"
    order_needs = Signal.PREDICTION
    engine_code = SERVICE

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, fewest predicted GPU-seconds left first."""
        work_gpu_s = view.jobs.predicted_remaining_s[view.queued] * view.jobs.num_gpus[view.queued]
        return view.queued[np.argsort(work_gpu_s, kind="stable")]
