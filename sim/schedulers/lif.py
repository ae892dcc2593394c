"""Least interference first, as the learned schedulers' papers use it as a baseline."""

from sim.arrays import IntArray
from sim.codes import ARRIVAL
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class LeastInterferenceFirst(QueueScheduler):
    """Jobs in order of submission, blocked ones skipped; workers where interference is least.

    The placement is the rule: its configuration composes the `least_interference` placer and
    sharing `always`; with the belief `linear` this is LIF-Linear (Harmony's baseline).
    """

    order_name = "lif"
    order_needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = ARRIVAL

    def order(self, view: ClusterView) -> IntArray:
        """The queue as it stands."""
        return view.queued
