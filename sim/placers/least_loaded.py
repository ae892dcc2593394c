"""Least loaded: worker by worker to the server with the least load."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import LEAST_LOADED
from sim.placing.spreading import spread_out
from sim.signals import Signal
from sim.slots import Slots


class LeastLoaded:
    """Load of a server: workers on it over its GPUs; ties go to the lowest server index.

    Inside the server the least shared GPU, lowest id on ties. It spreads gangs: that is the rule.
    """

    name = "least_loaded"
    needs = Signal.NONE
    engine_code = LEAST_LOADED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        first = slots.topology.server_first_gpu
        return spread_out(
            slots.servers, first, slots.usable, slots.usable_per_server, slots.tenants, gang
        )
