"""Turning a choice of servers into GPU ids; shared by placers."""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import array_kernel


@array_kernel
def fill_servers(
    order: IntArray,  # servers in the order to fill them
    take: IntArray,  # (len(order),) GPUs wanted of each
    server_first_gpu: IntArray,
    usable: BoolArray,
    tenants: IntArray,
    gang: int,
) -> IntArray:
    """`gang` usable GPUs: of each server the least shared first, then the lowest id."""
    out = np.empty(gang, dtype=np.int64)
    done = 0
    for i in range(len(order)):
        left = min(take[i], gang - done)
        first, last = server_first_gpu[order[i]], server_first_gpu[order[i] + 1]
        level = 0
        while left > 0:
            for gpu in range(first, last):
                if left > 0 and usable[gpu] and tenants[gpu] == level:
                    out[done] = gpu
                    done += 1
                    left -= 1
            level += 1
    return out
