"""The GPUs offered to a placer: `sim.occupancy.Occupancy` where jobs ask for whole GPUs."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel, kernel
from sim.offers import NEVER, joining_cost
from sim.physics.slowing import WHOLE
from sim.walk.desk import Desk

NO_PARTS: IntArray = np.zeros(0, dtype=np.int64)


@array_kernel
def own_servers(desk: Desk, partition: int) -> IntArray:
    """(s,) servers of a partition, ascending."""
    yard = desk.yard
    return yard.own[yard.first_own[partition] : yard.first_own[partition + 1]]


@kernel
def _clear(desk: Desk) -> None:
    desk.usable[:] = False
    desk.per_server[:] = 0
    desk.cost[:] = 1.0


@kernel
def offer_empty(desk: Desk, partition: int) -> int:
    """Offer the empty GPUs of a partition; how many."""
    _clear(desk)
    total = 0
    yard = desk.yard
    for at in range(yard.first_own[partition], yard.first_own[partition + 1]):
        server = yard.own[at]
        for gpu in range(yard.first_gpu[server], yard.first_gpu[server + 1]):
            if desk.tenants[gpu] == 0:
                desk.usable[gpu] = True
                desk.per_server[server] += 1
                total += 1
    return total


@kernel
def _cost_of(desk: Desk, gpu: int, kind: int, profile: int, least_speed: float) -> float:
    price = desk.joining[profile, gpu]
    if np.isnan(price):
        price = joining_cost(
            desk.tenant[gpu, : desk.tenants[gpu]], desk.belief.slowing, desk.belief.feasible,
            kind, desk.job_profile, profile, least_speed, NO_PARTS, WHOLE, desk.crowd,
        )  # fmt: skip
        desk.joining[profile, gpu] = price
    return float(price)


@kernel
def offer_shared(desk: Desk, partition: int, profile: int, least_speed: float) -> int:
    """Offer also the GPUs of a partition that a job of `profile` may join; how many in all."""
    _clear(desk)
    total = 0
    yard = desk.yard
    for at in range(yard.first_own[partition], yard.first_own[partition + 1]):
        server = yard.own[at]
        kind = desk.server_type[server]
        for gpu in range(yard.first_gpu[server], yard.first_gpu[server + 1]):
            if desk.tenants[gpu] >= desk.tenant.shape[1]:
                continue
            price = _cost_of(desk, gpu, kind, profile, least_speed)
            if price < NEVER:
                desk.usable[gpu] = True
                desk.cost[gpu] = price
                desk.per_server[server] += 1
                total += 1
    return total
