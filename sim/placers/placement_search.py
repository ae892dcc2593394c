"""The placements of a gang worth a look, what the belief's tables predict of them, the cheapest."""

from typing import NamedTuple, Self

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel
from sim.physics.laws import NetworkTables, Spread, busy_s, comm_of
from sim.placers.filling import emptiest_first, fewest_servers
from sim.view import Slots

NONE = -1


class Law(NamedTuple):
    """What one profile's communication takes."""

    network: NetworkTables
    profile: int


class Site(NamedTuple):
    """What a worker finds on each server."""

    compute_s: FloatArray  # (S,) of the profile, on the server's GPU type
    rack: IntArray  # (S,)
    nic_jobs: IntArray  # (S,) multi-server jobs that are there already
    uplink_jobs: IntArray  # (R,)


class Offer(NamedTuple):
    """Usable GPUs, by server, on each the cheapest first."""

    servers: IntArray  # (s,) owned, ascending
    usable: IntArray  # (S,) usable GPUs of each server
    first: IntArray  # (S + 1,) those of server i are entries first[i] to first[i + 1] of `gpu`
    gpu: IntArray  # (n,)
    cost: FloatArray  # (n,) predicted slow-down there

    @classmethod
    def of(cls, slots: Slots) -> Self:
        """The offer of `slots`; ties go to the lowest id."""
        gpus = np.flatnonzero(slots.usable)
        cost = slots.cost[gpus]
        ranked = np.lexsort((cost, slots.topology.gpu_server[gpus]))
        return cls(
            servers=slots.servers, usable=slots.usable_per_server,
            first=np.concatenate([[0], np.cumsum(slots.usable_per_server)]), gpu=gpus[ranked],
            cost=cost[ranked],
        )  # fmt: skip


@array_kernel
def predicted_comm_s(order: IntArray, take: IntArray, site: Site, law: Law) -> float:
    """Exposed communication of a gang with `take[i]` workers on server `order[i]`, 0s allowed."""
    in_rack = np.zeros(len(site.uplink_jobs), dtype=np.bool_)
    largest, servers, racks, nic, uplink = 0, 0, 0, 0, 0
    for i in range(len(order)):  # the busiest links decide, so maxima of one pass suffice
        if take[i] > 0:
            server, rack = order[i], site.rack[order[i]]
            largest, servers = max(largest, take[i]), servers + 1
            nic, uplink = max(nic, site.nic_jobs[server]), max(uplink, site.uplink_jobs[rack])
            racks += not in_rack[rack]
            in_rack[rack] = True
    spread = Spread(largest, servers, racks, nic + 1, uplink + 1)
    return busy_s(comm_of(law.network, law.profile, spread))


@array_kernel
def comm_on_one_s(gang: int, law: Law) -> float:
    """The same of a gang on one server."""
    return busy_s(comm_of(law.network, law.profile, Spread(gang, 1, 1, 1, 1)))


@array_kernel
def _fill(order: IntArray, usable: IntArray, gang: int) -> tuple[IntArray, int]:
    """Workers on each server of `order`, filled in this order; how many in all."""
    take = np.zeros(len(order), dtype=np.int64)
    taken = 0
    for i in range(len(order)):
        take[i] = min(gang - taken, usable[order[i]])
        taken += take[i]
    return take, taken


@array_kernel
def _way(  # noqa: PLR0917 - arrays go by position into compiled code
    way: int,
    gang: int,
    servers: IntArray,
    emptiest: IntArray,
    usable: IntArray,
    most: IntArray,
    rack: IntArray,
) -> IntArray:
    """Servers to fill in this order; the racks' ways come after those that are tied to none.

    `emptiest` are the owned `servers`, most usable GPUs first. 0: the servers of the fewest ever
    (`fewest_servers`); 1: all, emptiest first; from 2 on: those of rack way - 2, emptiest first.
    """
    if way == 0:
        return fewest_servers(servers, usable, most, gang)
    if way == 1:
        return emptiest
    here, count = np.empty(len(emptiest), dtype=np.int64), 0
    for server in emptiest:  # filtered in this order, so that nothing is sorted again
        if rack[server] == way - 2:
            here[count] = server
            count += 1
    return here[:count]


@array_kernel
def _ways(gang: int, servers: IntArray, usable: IntArray, racks: int) -> int:
    """How many ways `_way` knows; racks matter where no server has room for all."""
    for server in servers:
        if usable[server] >= gang:
            return 2
    return 2 + racks


@array_kernel
def least_comm_s(gang: int, servers: IntArray, most: IntArray, site: Site, law: Law) -> float:
    """Least communication of a gang alone where each server gives `most` GPUs."""
    alone = Site(
        site.compute_s, site.rack, np.zeros_like(site.nic_jobs), np.zeros_like(site.uplink_jobs)
    )
    emptiest = emptiest_first(servers, most)
    least_s = np.inf
    for way in range(_ways(gang, servers, most, len(site.uplink_jobs))):  # each may be the least
        order = _way(way, gang, servers, emptiest, most, most, site.rack)
        take, taken = _fill(order, most, gang)
        if taken == gang:
            least_s = min(least_s, predicted_comm_s(order, take, alone, law))
    return least_s


@array_kernel
def least_spread_s(gang: int, law: Law) -> float:
    """No placement of a gang over several servers communicates less; -inf: nobody knows."""
    if gang == 1:
        return np.inf
    network, profile = law.network, law.profile
    least = min(network.server_s.min(), network.rack_s.min())
    if min(least, network.nic_factor.min(), network.uplink_factor.min()) < 0:
        return -np.inf
    local_s, server_s, nic_factor = np.inf, np.inf, np.inf
    for count in range(1, gang):  # on several servers none has the whole gang
        local_s = min(local_s, comm_on_one_s(count, law))
    for count in range(2, max(3, network.server_s.shape[1])):  # beyond it all read the last entry
        alone = comm_of(network, profile, Spread(1, count, 1, 1, 1))
        server_s = min(server_s, alone.server_s)
    for count in range(1, max(2, len(network.nic_factor))):  # nothing makes the factors rise
        beside = comm_of(network, profile, Spread(1, 1, 1, count, 1))
        nic_factor = min(nic_factor, beside.nic_factor)
    return float(local_s + server_s * nic_factor)


@array_kernel
def _best_server(gang: int, offer: Offer, site: Site) -> IntArray:
    """The server with room for all on which the slowest worker is fastest; tightest on ties."""
    best, best_s = NONE, np.inf
    for server in offer.servers:
        if offer.usable[server] >= gang:
            slowest_s = site.compute_s[server] * offer.cost[offer.first[server] + gang - 1]
            tighter = slowest_s == best_s and offer.usable[server] < offer.usable[best]
            if best == NONE or slowest_s < best_s or tighter:
                best, best_s = server, slowest_s
    return np.full(1 if best != NONE else 0, best)


@array_kernel
def _cheapest_gpus(gang: int, offer: Offer, site: Site) -> IntArray:
    """(s,) workers on each owned server where the cheapest GPUs are taken, wherever they are.

    There are at least `gang`. Each server's are in order, so its next one is the first not taken.
    """
    take = np.zeros(len(offer.servers), dtype=np.int64)
    for _ in range(gang):  # sorted lists are merged: of each server only the next GPU competes
        best, best_s = NONE, np.inf
        for i, server in enumerate(offer.servers):  # only if cheaper: ties go to the first
            if take[i] < offer.usable[server]:
                at_s = site.compute_s[server] * offer.cost[offer.first[server] + take[i]]
                if best == NONE or at_s < best_s:
                    best, best_s = i, at_s
        take[best] += 1
    return take


@array_kernel
def _seconds(order: IntArray, take: IntArray, offer: Offer, site: Site) -> tuple[float, float]:
    """Compute of the slowest worker, alone and beside its neighbours."""
    alone_s, slowed_s = 0.0, 0.0
    for i in range(len(order)):
        if take[i] > 0:
            own_s = site.compute_s[order[i]]
            alone_s = max(alone_s, own_s)
            slowed_s = max(slowed_s, own_s * offer.cost[offer.first[order[i]] + take[i] - 1])
    return alone_s, slowed_s


@array_kernel
def _gpus(order: IntArray, take: IntArray, taken: int, offer: Offer) -> IntArray:
    gpus, n = np.empty(taken, dtype=np.int64), 0
    for i in range(len(order)):  # server by server: callers put them in order of ids
        for k in range(take[i]):  # of each server the cheapest stand first
            gpus[n] = offer.gpu[offer.first[order[i]] + k]
            n += 1
    return gpus


@array_kernel
def cheapest_placement(  # noqa: PLR0917 - arrays go by position into compiled code
    gang: int,
    offer: Offer,
    most: IntArray,
    site: Site,
    law: Law,
    least_s: float,
    most_slowdown: float,
    floor_s: float,
) -> IntArray:
    """GPUs of the cheapest placement looked at whose exclusive slow-down is within the limit.

    Args:
        gang: workers.
        offer: what is usable; at least `gang` GPUs.
        most: (S,) GPUs that each server could ever give.
        site: the servers.
        law: of communication.
        least_s: communication of the most compact placement.
        most_slowdown: limit of (compute + communication) / (compute + `least_s`).
        floor_s: no placement over several servers takes less; -inf: nobody knows.

    Returns:
        The GPUs server by server; empty if no placement is within the limit.
    """
    emptiest = emptiest_first(offer.servers, offer.usable)
    best_s = np.inf
    best_order, best_take, placed = emptiest[:0], emptiest[:0], 0
    # The best server first: nothing on one server costs less, and it may end the search.
    for way in range(-2, _ways(gang, offer.servers, offer.usable, len(site.uplink_jobs))):
        if way == -2:  # noqa: PLR2004
            order = _best_server(gang, offer, site)
            take, taken = _fill(order, offer.usable, gang)
        elif way == -1:
            order, take, taken = offer.servers, _cheapest_gpus(gang, offer, site), gang
        else:
            order = _way(way, gang, offer.servers, emptiest, offer.usable, most, site.rack)
            take, taken = _fill(order, offer.usable, gang)
        if taken < gang:
            continue
        comm_s = predicted_comm_s(order, take, site, law)
        alone_s, slowed_s = _seconds(order, take, offer, site)
        within = alone_s + comm_s <= most_slowdown * (alone_s + least_s)
        if way == -2 and not within:  # noqa: PLR2004
            floor_s = -np.inf  # another single server may be within, at a cost that nobody knows
        if within and slowed_s + comm_s < best_s:
            best_s, best_order, best_take, placed = slowed_s + comm_s, order, take, gang
        if best_s <= floor_s:  # nor does anything on several servers
            break
    return _gpus(best_order, best_take, placed, offer)
