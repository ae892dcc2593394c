"""`compact_wait`: the cheapest of several placements, if not spread too far.

What is looked at is `sim.placing.placement_search`'s. Where one server has room the answer is
mostly plain: nothing is faster than that server, whatever is spread communicates more.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.layout import Memory
from sim.engine.placing import fill_by_id, own_servers
from sim.jit import array_kernel, kernel
from sim.kernel.layout import State
from sim.kernel.rooms import NONE, Rooms, next_server, usable_in
from sim.placing.placement_search import (
    Law,
    Offer,
    Site,
    cheapest_placement,
    comm_on_one_s,
    least_comm_s,
    least_spread_s,
)


@array_kernel
def _usable_by_cost(state: State, memory: Memory, rooms: Rooms, servers: IntArray) -> Offer:
    """Usable GPUs by server, on each the cheapest first, then by id."""
    first = np.zeros(len(rooms.usable) + 1, dtype=np.int64)
    for server in servers:
        first[server + 1] = rooms.usable[server]
    first = np.cumsum(first)
    gpus, cost = np.empty(first[-1], dtype=np.int64), np.empty(first[-1])
    usable, priced = (
        state.rooms.gpu if memory.game[0].whole != 0 else rooms.gpu,
        memory.game[0].priced != 0,
    )
    for server in servers:
        end = first[server]
        for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
            if not usable[gpu] or end == first[server + 1]:
                continue
            at, mine = end, rooms.cost[gpu] if priced else 1.0
            while at > first[server] and cost[at - 1] > mine:
                gpus[at], cost[at] = gpus[at - 1], cost[at - 1]
                at -= 1
            gpus[at], cost[at] = gpu, mine
            end += 1
    return Offer(servers, rooms.usable, first, gpus, cost)


@kernel
def _all_free(rooms: Rooms, room: int) -> bool:
    """Whether every server could give no more if it were empty."""
    most = 0
    for size in range(1, rooms.sizes.shape[1]):
        most += size * rooms.sizes[room, size]
    return usable_in(rooms, room) == most


@array_kernel
def _floor_s(state: State, memory: Memory, m: int, profile: int, gang: int, law: Law) -> float:
    """No placement over several servers takes less, on GPUs that nobody else uses."""
    known = memory.compact
    if np.isnan(known.fastest_s[m, profile]):
        own = own_servers(state, m)
        known.fastest_s[m, profile] = memory.belief.compute_s[profile][own].min()
    if np.isnan(known.spread_s[profile, gang]):
        known.spread_s[profile, gang] = least_spread_s(gang, law)
    return float(known.fastest_s[m, profile] + known.spread_s[profile, gang])


@kernel
def _fastest_with_room(
    rooms: Rooms, room: int, gang: int, compute_s: FloatArray, fastest_s: float
) -> int:  # fmt: skip
    """The fastest server with room for all, the tightest on ties; NONE if there is none."""
    best = NONE
    for usable in range(gang, rooms.tally.shape[1] - 1):
        server = next_server(rooms, room, usable, 0)
        while server != NONE:
            if best == NONE or compute_s[server] < compute_s[best]:
                best = server
            if compute_s[best] <= fastest_s:
                return best
            server = next_server(rooms, room, usable, server + 1)
    return best


@kernel
def _law(memory: Memory, profile: int) -> Law:
    belief = memory.belief
    return Law(
        belief.local_s, belief.server_s, belief.rack_s, belief.nic_factor, belief.uplink_factor,
        profile,
    )  # fmt: skip


@array_kernel
def _site(memory: Memory, profile: int) -> Site:
    compute_s = memory.belief.compute_s[profile]
    return Site(compute_s, memory.server_rack, memory.nic_jobs, memory.uplink_jobs)


@array_kernel
def _least_comm_s(state: State, memory: Memory, rooms: Rooms, m: int, number: int) -> float:
    """Communication of the most compact place there could be; remembered while servers stay."""
    kind, known = memory.kind[number], memory.compact.least_s
    least_s = known[m, kind.profile, kind.gang]
    if kind.picky == 0 and not np.isnan(least_s):
        return float(least_s)
    site, law = _site(memory, kind.profile), _law(memory, kind.profile)
    least_s = least_comm_s(kind.gang, own_servers(state, m).copy(), rooms.most, site, law)
    # What servers could ever give differs from kind to kind, and where they come and go.
    if kind.picky == 0 and len(state.outages) == 0:
        known[m, kind.profile, kind.gang] = least_s
    return float(least_s)


@array_kernel
def place_compactly(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_job`; called by address where that is the placer.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    number = memory.waiter[job].kind
    rooms, room = (state.rooms if free != 0 else memory.offer), (m if free != 0 else 0)
    gang, profile = memory.kind[number].gang, memory.kind[number].profile
    site, law = _site(memory, profile), _law(memory, profile)
    least_s = _least_comm_s(state, memory, rooms, m, number)
    limit = np.inf if _all_free(rooms, room) else memory.rule[0].most_slowdown
    floor_s = -np.inf
    if memory.game[0].priced == 0:
        floor_s = _floor_s(state, memory, m, profile, gang, law)
        fastest_s = memory.compact.fastest_s[m, profile]
        server = _fastest_with_room(rooms, room, gang, site.compute_s, fastest_s)
        if server != NONE:
            own_s, comm_s = site.compute_s[server], comm_on_one_s(gang, law)
            within = own_s + comm_s <= limit * (own_s + least_s)
            if within and own_s + comm_s <= floor_s:
                return bool(fill_by_id(state, memory, rooms, server, gang, 0) == gang)
    offer = _usable_by_cost(state, memory, rooms, own_servers(state, m).copy())
    gpus = np.sort(cheapest_placement(gang, offer, rooms.most, site, law, least_s, limit, floor_s))
    memory.gpus[: len(gpus)] = gpus
    return bool(len(gpus) == gang)
