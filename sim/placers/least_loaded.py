"""Least loaded: worker by worker to the server with the least load."""

import numpy as np
from numba import njit

from sim.arrays import BoolArray, IntArray
from sim.compiled.plan import LEAST_LOADED
from sim.signals import Signal
from sim.slots import Slots


@njit(cache=True)
def _spread(
    servers: IntArray,
    server_first_gpu: IntArray,
    usable: BoolArray,
    usable_per_server: IntArray,
    tenants: IntArray,
    gang: int,
) -> IntArray:
    load = np.zeros(len(usable_per_server))
    size = np.ones(len(usable_per_server))
    left = usable_per_server.copy()
    for server in servers:
        first, last = server_first_gpu[server], server_first_gpu[server + 1]
        size[server] = last - first
        load[server] = tenants[first:last].sum()
    taken = np.zeros(len(usable), dtype=np.bool_)
    out = np.empty(gang, dtype=np.int64)
    for i in range(gang):
        best = -1
        for server in servers:
            if left[server] > 0 and (
                best < 0 or load[server] / size[server] < load[best] / size[best]
            ):
                best = server
        choice = -1
        for gpu in range(server_first_gpu[best], server_first_gpu[best + 1]):
            free = usable[gpu] and not taken[gpu]
            if free and (choice < 0 or tenants[gpu] < tenants[choice]):
                choice = gpu
        taken[choice] = True
        out[i] = choice
        left[best] -= 1
        load[best] += 1
    return out


class LeastLoaded:
    """Load of a server: workers on it over its GPUs; ties go to the lowest server index.

    Inside the server the least shared GPU, lowest id on ties. It spreads gangs: that is the rule.
    """

    name = "least_loaded"
    needs = Signal.NONE
    compiled_code = LEAST_LOADED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        first = slots.topology.server_first_gpu
        return _spread(
            slots.servers, first, slots.usable, slots.usable_per_server, slots.tenants, gang
        )
