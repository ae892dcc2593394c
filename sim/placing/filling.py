"""Turning a choice of servers into GPU ids; shared by placers."""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import array_kernel, kernel


@kernel
def fill_server(  # noqa: PLR0917 - arrays go by position into compiled code
    usable: BoolArray, tenants: IntArray, first: int, last: int, wanted: int, out: IntArray, at: int
) -> int:  # fmt: skip
    """Write `wanted` of the usable GPUs first to last - 1 to `out` from `at` on.

    The least shared first, then the lowest id. How many `out` holds then.
    """
    level = 0
    while wanted > 0:
        for gpu in range(first, last):
            if wanted > 0 and usable[gpu] and tenants[gpu] == level:
                out[at] = gpu
                at += 1
                wanted -= 1
        level += 1
    return at


@array_kernel
def fill_servers(
    order: IntArray,  # servers in the order to fill them
    take: IntArray,  # (len(order),) GPUs wanted of each
    server_first_gpu: IntArray,
    usable: BoolArray,
    tenants: IntArray,
    gang: int,
) -> IntArray:
    """`gang` usable GPUs, server by server."""
    out = np.empty(gang, dtype=np.int64)
    done = 0
    for i in range(len(order)):
        first, last = server_first_gpu[order[i]], server_first_gpu[order[i] + 1]
        done = fill_server(usable, tenants, first, last, min(take[i], gang - done), out, done)
    return out
