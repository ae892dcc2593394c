"""Shortest remaining service first, with preemption, by prediction."""

from sim.arrays import FloatArray, IntArray
from sim.codes import SERVICE
from sim.engine.composed import PreemptiveScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Srsf(PreemptiveScheduler):
    """Runs the jobs with least predicted service left: remaining time x GPUs.

    Source: the order that Tiresias (Gu et al., NSDI 2019, section 3.1) takes as the best one when
    durations are known, and that Ada-SRSF (Wang et al., arXiv 2002.10105) builds on. Preemption is
    considered at arrivals and finishes; a blocked job does not block others; ties go to the earlier
    job. The papers know the durations; chosen here: predictions, so that it can be used without an
    oracle. `estimator=oracle` gives the papers' form. A job that outruns its prediction has nothing
    left, so nobody preempts it any more.
    """

    order_name = "srsf"
    order_needs = Signal.PREDICTION
    engine_code = SERVICE

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Predicted GPU-seconds left at speed 1."""
        left_gpu_s: FloatArray = view.jobs.predicted_remaining_s[jobs] * view.jobs.num_gpus[jobs]
        return left_gpu_s
