"""Consolidated: a gang waits until it fits on the fewest servers it could ever use."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import CONSOLIDATED
from sim.placing.compactness import fewest_servers
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots


class Consolidated:
    """One server if the gang fits in one: the one with the fewest sufficient free GPUs.

    Else ⌊g / L⌋ whole empty servers of the largest size L, lowest index first, and the remainder
    best-fit on one more; lowest index on ties. If that is not there now, the job waits.
    """

    name = "consolidated"
    needs = Signal.NONE
    engine_code = CONSOLIDATED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs of the compact placement, or None while it is not there."""
        del rng
        topology = slots.topology
        size = slots.most_per_server
        servers = fewest_servers(slots.servers, slots.usable_per_server, size, gang)
        if len(servers) == 0:
            return None
        take = slots.usable_per_server[servers]
        first = topology.server_first_gpu
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
