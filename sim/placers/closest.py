"""Closest GPUs: a seed server chosen by gang size, then the GPUs nearest to it."""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.engine.codes import CLOSEST
from sim.signals import Signal
from sim.slots import Slots

SAME_SERVER, SAME_RACK, ELSEWHERE = 0, 1, 2


class Closest:
    """The placement of TopDRL (Ayadi et al., JPDC 204, 2025), as in its authors' code.

    The seed: a gang larger than a server begins in the rack with most free GPUs, on its server
    with most. A gang of several that fits a server looks in the rack with fewest free GPUs (but
    some) for servers with room for all of it, and takes the tightest; then in the rack with most;
    there, if no server has room, the one with most begins. A single worker goes to the rack with
    fewest. Then GPUs of the seed's server come before those of its rack, those before all others,
    by id, and the first usable ones are taken.

    Left open and chosen here: ties go to the lowest rack and server; a single worker takes the
    tightest server of its rack; on unequal servers, a server's size is that of the largest the
    gang could use. GPUs of a rack that others own do not count as free. Never waits.
    """

    name = "closest"
    needs = Signal.NONE
    engine_code = CLOSEST

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        topology = slots.topology
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        seed = _seed_server(gang, slots)
        gpus = np.flatnonzero(slots.usable)
        server = topology.gpu_server[gpus]
        near = topology.server_rack[server] == topology.server_rack[seed]
        distance = np.where(near, SAME_RACK, ELSEWHERE)
        distance[server == seed] = SAME_SERVER
        return gpus[np.argsort(distance, kind="stable")[:gang]]


def _seed_server(gang: int, slots: Slots) -> int:
    """The server to begin with; some GPU is usable."""
    topology, free = slots.topology, slots.usable_per_server
    in_rack = np.bincount(
        topology.server_rack[slots.servers],
        weights=free[slots.servers],
        minlength=topology.num_racks,
    )
    fullest = int(np.argmin(np.where(in_rack > 0, in_rack, np.inf)))
    emptiest = int(np.argmax(in_rack))
    mine: BoolArray = np.zeros(topology.num_servers, dtype=np.bool_)
    mine[slots.servers] = True
    if gang <= slots.most_per_server[slots.servers].max(initial=0):
        for rack in (fullest, emptiest):
            fits = mine & (topology.server_rack == rack) & (free >= gang)
            if fits.any():
                return int(np.argmin(np.where(fits, free, topology.num_gpus + 1)))
    here = mine & (topology.server_rack == emptiest)
    return int(np.argmax(np.where(here, free, -1)))
