"""The placers' choices among the GPUs on offer, written to `desk.gpus`.

The same GPUs in the same order as the Python placers of these names return.
"""

import numpy as np

from sim.arrays import IntArray
from sim.compiled.plan import (
    BEST_FIT,
    COMPACT_WAIT,
    CONSOLIDATED,
    FIRST_FIT,
    LEAST_INTERFERENCE,
    LEAST_LOADED,
    PACKED,
)
from sim.jit import array_kernel
from sim.placing.compactness import fewest_servers
from sim.placing.filling import fill_servers
from sim.placing.placement_search import Law, Offer, Site, cheapest_placement, least_comm_s
from sim.placing.spreading import spread_out
from sim.walk.desk import Desk
from sim.walk.offering import own_servers
from sim.walk.plan import Rule

NO_GPUS: IntArray = np.zeros(0, dtype=np.int64)


@array_kernel
def _servers(desk: Desk, placer: int, partition: int, gang: int) -> IntArray:
    """Servers to fill in this order; none if the gang has to wait."""
    mine = own_servers(desk, partition)
    usable = desk.per_server[mine]
    if placer in (CONSOLIDATED, PACKED):
        servers = fewest_servers(mine, desk.per_server, desk.yard.size, gang)
        if placer == CONSOLIDATED or len(servers) > 0:
            return servers
    if placer == BEST_FIT:
        # Servers with too few for the whole gang come last, where one has enough.
        short = (usable < gang) & (usable.max() >= gang)
        tightest: IntArray = mine[np.argsort(usable + short * len(desk.usable), kind="mergesort")]
        return tightest
    fullest: IntArray = mine[np.argsort(-usable, kind="mergesort")]
    return fullest


@array_kernel
def _filled(desk: Desk, placer: int, partition: int, gang: int) -> IntArray:
    servers = _servers(desk, placer, partition, gang)
    take = desk.per_server[servers]
    if take.sum() < gang:
        return NO_GPUS.copy()
    return fill_servers(servers, take, desk.yard.first_gpu, desk.usable, desk.tenants, gang)


@array_kernel
def _least_interference(desk: Desk, gang: int) -> IntArray:
    gpus = np.flatnonzero(desk.usable)
    chosen: IntArray = np.sort(gpus[np.argsort(desk.cost[gpus], kind="mergesort")[:gang]])
    return chosen


@array_kernel
def _offer(desk: Desk, mine: IntArray) -> Offer:
    """`Offer.of` the GPUs on offer: by server, on each the cheapest first, then by id."""
    first = np.zeros(len(desk.per_server) + 1, dtype=np.int64)
    for server in range(len(desk.per_server)):
        first[server + 1] = first[server] + desk.per_server[server]
    gpus, cost = np.empty(first[-1], dtype=np.int64), np.empty(first[-1])
    for server in mine:
        at = first[server]
        for gpu in range(desk.yard.first_gpu[server], desk.yard.first_gpu[server + 1]):
            if not desk.usable[gpu]:
                continue
            place = at
            while place > first[server] and cost[place - 1] > desk.cost[gpu]:
                gpus[place], cost[place] = gpus[place - 1], cost[place - 1]
                place -= 1
            gpus[place], cost[place] = gpu, desk.cost[gpu]
            at += 1
    return Offer(mine, desk.per_server, first, gpus, cost)


@array_kernel
def _compact_wait(
    desk: Desk, partition: int, gang: int, profile: int, most_slowdown: float
) -> IntArray:
    """Rule of `sim.placers.compact_wait`."""
    mine, most, belief = own_servers(desk, partition).copy(), desk.yard.size, desk.belief
    law = Law(
        belief.local_s[profile], belief.server_s[profile], belief.rack_s[profile],
        belief.nic_factor, belief.uplink_factor,
    )  # fmt: skip
    site = Site(belief.compute_s[profile], desk.yard.rack, desk.nic_jobs, desk.uplink_jobs)
    least_s = desk.least_comm_s[partition, profile, gang]
    if np.isnan(least_s):
        least_s = least_comm_s(gang, mine, most, site, law)
        desk.least_comm_s[partition, profile, gang] = least_s
    all_free = True
    for server in mine:
        all_free = all_free and desk.per_server[server] == most[server]
    limit = np.inf if all_free else most_slowdown
    gpus = cheapest_placement(gang, _offer(desk, mine), most, site, law, least_s, limit)
    return np.sort(gpus)


@array_kernel
def choose(desk: Desk, rule: Rule, partition: int, gang: int, profile: int, at: int) -> bool:
    """Write the GPUs of a gang, of which at least as many are on offer; False: it has to wait."""
    placer = rule.placer
    if placer == FIRST_FIT:
        gpus = np.flatnonzero(desk.usable)[:gang]
    elif placer == LEAST_INTERFERENCE:
        gpus = _least_interference(desk, gang)
    elif placer == LEAST_LOADED:
        mine = own_servers(desk, partition)
        gpus = spread_out(
            mine, desk.yard.first_gpu, desk.usable, desk.per_server, desk.tenants, gang
        )
    elif placer == COMPACT_WAIT:
        gpus = _compact_wait(desk, partition, gang, profile, rule.most_slowdown)
    else:
        gpus = _filled(desk, placer, partition, gang)
    if len(gpus) < gang:
        return False
    desk.gpus[at : at + gang] = gpus
    return True
