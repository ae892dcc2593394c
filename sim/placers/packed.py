"""Packed: the compact placement if it is there now, else whatever is free, fullest first."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import PACKED
from sim.placing.compactness import fewest_servers
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots


class Packed:
    """`consolidated`'s choice if it exists now, else the servers with most free GPUs first.

    Never waits for compactness; ties go to the lowest server index.
    """

    name = "packed"
    needs = Signal.NONE
    engine_code = PACKED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        topology = slots.topology
        size = slots.most_per_server
        servers = fewest_servers(slots.servers, slots.usable_per_server, size, gang)
        if len(servers) == 0:
            servers = slots.servers[np.argsort(-usable, kind="stable")]
        take = slots.usable_per_server[servers]
        first = topology.server_first_gpu
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
