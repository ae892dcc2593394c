"""Best fit: the server with fewest sufficient free GPUs, else the fullest servers first."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import BEST_FIT
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots


class BestFit:
    """One server if any has room for the gang now: the one with the fewest sufficient GPUs.

    Else the servers with the fewest usable GPUs first, each giving all it has, so that empty
    servers stay empty. Never waits; ties go to the lowest server index. The textbook rule of bin
    packing (Johnson et al., SIAM J. Comput. 1974), which knows no gang larger than a bin: filling
    up the fullest servers is our choice for those.
    """

    name = "best_fit"
    needs = Signal.NONE
    engine_code = BEST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        # Servers with too few for the whole gang come last, where one has enough.
        short = (usable < gang) & (usable.max() >= gang)
        servers = slots.servers[np.lexsort((usable, short))]
        take = slots.usable_per_server[servers]
        first = slots.topology.server_first_gpu
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
