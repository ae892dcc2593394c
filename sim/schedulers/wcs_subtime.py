"""Work-conserving scan in order of submission."""

from sim.arrays import IntArray
from sim.codes import ARRIVAL
from sim.engine.composed import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class WcsSubtime(QueueScheduler):
    """Scans all waiting jobs in order of submission and starts every one that fits.

    Baseline WCS-SubTime of A-SRPT (Luo et al., INFOCOM 2025), which leaves the details open;
    chosen here: a job that queues again keeps the place of its submission. It is FIFO that lets
    others pass, without a reservation for who waits, so large gangs may starve.
    """

    order_name = "wcs_subtime"
    order_needs = Signal.NONE
    engine_code = ARRIVAL

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs as they were submitted."""
        return view.queued
