"""Load balancing, as the learned schedulers' papers use it as a baseline."""

from sim.arrays import IntArray
from sim.codes import ARRIVAL
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class LoadBalance(QueueScheduler):
    """Jobs in order of submission, blocked ones skipped; each worker to the least loaded server.

    The placement is the rule: its configuration composes the `least_loaded` placer. Spreads gangs
    (Harmony, Bao et al., INFOCOM 2019, compares with it).
    """

    order_name = "load_balance"
    order_needs = Signal.NONE
    engine_code = ARRIVAL

    def order(self, view: ClusterView) -> IntArray:
        """The queue as it stands."""
        return view.queued
