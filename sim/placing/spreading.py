"""Spreading a gang over the least loaded servers, worker by worker; the load of a GPU."""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import array_kernel, kernel


@array_kernel
def spread_out(
    servers: IntArray,
    server_first_gpu: IntArray,
    usable: BoolArray,
    usable_per_server: IntArray,
    tenants: IntArray,
    gang: int,
) -> IntArray:
    """`gang` usable GPUs of `servers`, one by one where the fewest workers a GPU are by then."""
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


@kernel
def workload_s(before_s: float, before: int, now: int, waiting_s: float) -> float:
    """Workload of a GPU with `now` tenants; as the decision began it had `before`, `before_s`.

    `waiting_s`: mean work left of waiting jobs.
    """
    if now == before:
        return before_s
    return float(before_s * min(now / max(before, 1), 1.0) + max(now - before, 0) * waiting_s)
