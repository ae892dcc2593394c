"""First in, first out."""

from sim.arrays import IntArray
from sim.codes import ARRIVAL
from sim.engine.composed import QueueScheduler
from sim.protocols import Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView


class Fifo(QueueScheduler):
    """Jobs start in order of submission.

    Strict by default: a head that cannot be placed blocks the queue, as in Helios' and Tiresias'
    simulators. With `skip_blocked` those behind it may start (backfill without reservation), and
    the name is `fifo_skip`.
    """

    order_name = "fifo"
    order_needs = Signal.NONE
    engine_code = ARRIVAL

    def __init__(self, *, placer: Placer, sharing: Sharing, skip_blocked: bool) -> None:
        """Compose FIFO with a placement and a sharing rule."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=skip_blocked)
        if skip_blocked:
            self.order_name = "fifo_skip"

    def order(self, view: ClusterView) -> IntArray:
        """The queue as it stands."""
        return view.queued
