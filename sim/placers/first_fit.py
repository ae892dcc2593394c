"""First fit: the usable GPUs with the lowest ids."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import FIRST_FIT
from sim.signals import Signal
from sim.slots import Slots


class FirstFit:
    """Lowest GPU ids first, however many servers that touches."""

    name = "first_fit"
    needs = Signal.NONE
    engine_code = FIRST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        gpus = np.flatnonzero(slots.usable)[:gang]
        return gpus if len(gpus) == gang else None
