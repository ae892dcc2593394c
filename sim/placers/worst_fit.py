"""Worst fit: the servers with most free GPUs first (Tetris' alignment with one resource)."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import WORST_FIT
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots


class WorstFit:
    """Highest dot product of demand and free vector first (Grandl et al., SIGCOMM 2014).

    With GPUs as the only resource that is the server with most free GPUs; each chosen server
    gives all it can before the next; ties go to the lowest index.
    """

    name = "worst_fit"
    needs = Signal.NONE
    engine_code = WORST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        servers = slots.servers[np.argsort(-usable, kind="stable")]
        take = slots.usable_per_server[servers]
        first = slots.topology.server_first_gpu
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
