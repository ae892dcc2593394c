"""The running gangs beside which a job could be packed, and what each would cost."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel
from sim.physics.pair_table import PairTable

NEVER = np.inf  # cost of a GPU that a job may not join


def pair_costs(pairs: PairTable, least_speed: float) -> FloatArray:
    """(T, P, P) own slow-down times the other's, of a newcomer of p beside o; NEVER: not worth it.

    `sim.physics.slowing.joining_cost` of a GPU with one tenant, where both ask for all of it.
    """
    own = 1.0 + (pairs.slowdown - 1.0)
    other = pairs.slowdown.swapaxes(1, 2)
    worth_it: BoolArray = pairs.feasible & (1.0 / other + 1.0 / own > least_speed)
    return np.where(worth_it, own * np.maximum(1.0, other), NEVER)


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
    """(G,) of joining the one tenant of each GPU; NEVER where there is none, or several."""
    cost = np.full(len(tenants), NEVER)
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

    `cost` (G,) is that of joining each GPU, NEVER where that may not be.
    """
    owner, worst = np.empty(len(tenants), dtype=np.int64), np.zeros(len(tenants))
    count, found = np.zeros(len(tenants), dtype=np.int64), 0
    for gpu in range(len(tenants)):
        if tenants[gpu] != 1 or cost[gpu] == NEVER or num_gpus[tenant[gpu, 0]] != gang:
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
