"""Shortest remaining time first, with preemption: an oracle."""

from sim.arrays import FloatArray, IntArray
from sim.codes import TRUE_LEFT
from sim.engine.composed import PreemptiveScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Srtf(PreemptiveScheduler):
    """Runs the jobs with least true work left; knows durations, so it is a reference.

    Preemption is considered at arrivals and finishes. A blocked job does not block others. Ties
    go to the earlier job.
    """

    order_name = "srtf"
    order_needs = Signal.DURATION
    engine_code = TRUE_LEFT

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """True remaining seconds at speed 1."""
        left_s: FloatArray = view.jobs.remaining_s[jobs]
        return left_s
