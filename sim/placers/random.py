"""Random: any usable GPUs, each set equally likely."""

import numpy as np

from sim.arrays import IntArray
from sim.signals import Signal
from sim.slots import Slots


class Random:
    """The floor that every placement rule has to beat."""

    name = "random"
    needs = Signal.NONE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        gpus = np.flatnonzero(slots.usable)
        if len(gpus) < gang:
            return None
        return np.sort(rng.choice(gpus, size=gang, replace=False))
