"""Offers of Dally: GPUs of one machine, else of one rack, else of any; first fit inside a tier."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel
from sim.placing.filling import fill_servers
from sim.slots import Slots

MACHINE, RACK, NETWORK = 0, 1, 2  # tiers: how far a gang may spread
NOWHERE = 3


@array_kernel
def _rack_room(servers: IntArray, room: IntArray, rack: IntArray, racks: int) -> IntArray:
    """(R,) room of the owned servers of each rack."""
    total = np.zeros(racks, dtype=np.int64)
    for server in servers:
        total[rack[server]] += room[server]
    return total


@array_kernel
def narrowest(servers: IntArray, room: IntArray, rack: IntArray, racks: int, gang: int) -> int:
    """Narrowest tier on which `gang` GPUs fit where server s has room for `room[s]`; or NOWHERE."""
    total = 0
    for server in servers:
        if room[server] >= gang:
            return MACHINE
        total += room[server]
    for each in _rack_room(servers, room, rack, racks):
        if each >= gang:
            return RACK
    return NETWORK if total >= gang else NOWHERE


@array_kernel
def first_servers(
    servers: IntArray, room: IntArray, rack: IntArray, racks: int, gang: int, tier: int
) -> IntArray:
    """Servers, in order of filling, of the first place of `tier`, which must be there.

    The first machine with room; of the first rack with room, or of the cluster, the machines
    with most room first, so that a gang touches few.
    """
    if tier == MACHINE:
        for server in servers:
            if room[server] >= gang:
                return np.array([server], dtype=np.int64)
    some = servers
    if tier == RACK:
        total = _rack_room(servers, room, rack, racks)
        for each in range(racks):
            if total[each] >= gang:
                some = servers[rack[servers] == each]
                break
    return some[np.argsort(-room[some], kind="mergesort")]


def needed_tier(slots: Slots, gang: int) -> int:
    """Narrowest tier that could hold the gang if every server that is up were empty."""
    topology = slots.topology
    room = slots.most_per_server
    return int(narrowest(slots.servers, room, topology.server_rack, topology.num_racks, gang))


def offer(slots: Slots, gang: int, widest: int) -> tuple[int, IntArray] | None:
    """The narrowest tier up to `widest` that has the GPUs now, and the GPUs (gang,); else None."""
    topology, room = slots.topology, slots.usable_per_server
    where = (slots.servers, room, topology.server_rack, topology.num_racks, gang)
    tier = int(narrowest(*where))
    if tier > widest or tier == NOWHERE:
        return None
    order = first_servers(*where, tier)
    first = topology.server_first_gpu
    return tier, fill_servers(order, room[order], first, slots.usable, slots.tenants, gang)
