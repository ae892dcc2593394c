"""Placers that look at how many GPUs each server has to give, or at single GPUs."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import (
    BEST_FIT,
    CONSOLIDATED,
    FIRST_FIT,
    LEAST_INTERFERENCE,
    LEAST_LOADED,
    PACKED,
    WORST_FIT,
)
from sim.placers.filling import fewest_servers, fill_servers, spread_out
from sim.signals import Signal
from sim.slots import Slots


def _filled(servers: IntArray, gang: int, slots: Slots) -> IntArray:
    """GPUs for a gang of servers in their order, each of which gives all it can."""
    take, first = slots.usable_per_server[servers], slots.topology.server_first_gpu
    return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)


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
        return _filled(servers, gang, slots)


class WorstFit:
    """Servers with most free GPUs first, however many that touches.

    Tetris's highest dot product of demand and free vector (Grandl et al., SIGCOMM 2014), with GPUs
    as the only resource; each chosen server
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
        return _filled(servers, gang, slots)


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
        size = slots.most_per_server
        servers = fewest_servers(slots.servers, slots.usable_per_server, size, gang)
        if len(servers) == 0:
            servers = slots.servers[np.argsort(-usable, kind="stable")]
        return _filled(servers, gang, slots)


class Consolidated:
    """As few servers as could ever hold the gang, the tightest; waits until they are free.

    One server if the gang fits in one: the one with the fewest sufficient free GPUs. Else ⌊g / L⌋
    whole empty servers of the largest size L, lowest index first, and the remainder best-fit on one
    more; lowest index on ties. If that is not there now, the job waits.
    """

    name = "consolidated"
    needs = Signal.NONE
    engine_code = CONSOLIDATED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs of the compact placement, or None while it is not there."""
        del rng
        size = slots.most_per_server
        servers = fewest_servers(slots.servers, slots.usable_per_server, size, gang)
        if len(servers) == 0:
            return None
        return _filled(servers, gang, slots)


class LeastLoaded:
    """Each worker goes to the server with least load: workers on it over its GPUs.

    Ties go to the lowest server index. Inside the server the least shared GPU, lowest id on ties.
    It spreads gangs: that is the rule.
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


class Random:
    """Any usable GPUs: the floor that every rule has to beat; the only one not compiled."""

    name = "random"
    needs = Signal.NONE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        gpus = np.flatnonzero(slots.usable)
        if len(gpus) < gang:
            return None
        return np.sort(rng.choice(gpus, size=gang, replace=False))
