"""The running gangs beside which a job could be packed, and what each would cost."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel
from sim.physics.slowing import NO_COST, WHOLE, joining_cost
from sim.physics.slowing_tables import Slowing, seat


@array_kernel
def pair_costs(slowing: Slowing, feasible: BoolArray, least_speed: float) -> FloatArray:
    """(T, P, P) `joining_cost` of a newcomer of p beside o, where both ask for all of the GPU."""
    cost, crowd = np.empty(feasible.shape), np.empty(4, dtype=np.int64)
    for kind, mine, other in np.ndindex(feasible.shape):
        seat(crowd, 0, other, WHOLE)
        seat(crowd, 1, mine, WHOLE)
        cost[kind, mine, other] = joining_cost(slowing, feasible, kind, crowd, 1, least_speed)
    return cost


@array_kernel
def costs_beside_one(  # noqa: PLR0917 - arrays go by position into compiled code
    tenants: IntArray,  # (G,)
    tenant: IntArray,  # (G, C)
    gpu_server: IntArray,  # (G,)
    server_type: IntArray,  # (S,)
    profile: IntArray,  # (J,)
    job: int,
    pair_cost: FloatArray,
) -> FloatArray:
    """(G,) of joining the one tenant of each GPU; NO_COST where there is none, or several."""
    cost = np.full(len(tenants), NO_COST)
    for gpu in range(len(tenants)):
        if tenants[gpu] == 1:
            kind = server_type[gpu_server[gpu]]
            cost[gpu] = pair_cost[kind, profile[job], profile[tenant[gpu, 0]]]
    return cost


@array_kernel
def residents(
    tenants: IntArray, tenant: IntArray, cost: FloatArray, num_gpus: IntArray, gang: int
) -> tuple[IntArray, FloatArray]:
    """Gangs of `gang` alone on as many GPUs that may all be joined; the cost of the worst of each.

    `cost` (G,) is that of joining each GPU, NO_COST where that may not be.
    """
    owner, worst = np.empty(len(tenants), dtype=np.int64), np.zeros(len(tenants))
    count, found = np.zeros(len(tenants), dtype=np.int64), 0
    for gpu in range(len(tenants)):
        if tenants[gpu] != 1 or cost[gpu] == NO_COST or num_gpus[tenant[gpu, 0]] != gang:
            continue
        at = found if gang == 1 else 0
        while at < found and owner[at] != tenant[gpu, 0]:
            at += 1
        if at == found:
            owner[at] = tenant[gpu, 0]
            found += 1
        worst[at] = max(worst[at], cost[gpu])
        count[at] += 1
    whole = np.flatnonzero(count[:found] == gang)
    return owner[whole], worst[whole]
