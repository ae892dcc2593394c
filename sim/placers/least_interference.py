"""Least interference: the GPUs on which co-location is predicted to cost least."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import LEAST_INTERFERENCE
from sim.signals import Signal
from sim.slots import Slots


class LeastInterference:
    """Workers go to the usable GPUs with the lowest predicted slow-down of self x worst victim.

    Ties go to the lowest GPU id (Harmony's baseline LIF: blind to how far a gang spreads).
    """

    name = "least_interference"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = LEAST_INTERFERENCE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        gpus = np.flatnonzero(slots.usable)
        if len(gpus) < gang:
            return None
        cheapest = np.argsort(slots.cost[gpus], kind="stable")[:gang]
        return np.sort(gpus[cheapest])
