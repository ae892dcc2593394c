"""The most valuable of several things that fit together into a limited room."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel


@array_kernel
def _choose(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    best = np.zeros(room + 1)
    taken = np.zeros((len(sizes), room + 1), dtype=np.bool_)
    for item in range(len(sizes)):
        size = sizes[item]
        for space in range(room, size - 1, -1):
            value = best[space - size] + values[item]
            if value > best[space]:
                best[space] = value
                taken[item, space] = True
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    space = room
    for item in range(len(sizes) - 1, -1, -1):
        if taken[item, space]:
            chosen[item] = True
            space -= sizes[item]
    return chosen


def most_valuable(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    """(n,) which to take so that the sum of values is the largest that fits; exact.

    Dynamic programming, n x room steps. Of equally good choices the one with earlier items.

    Args:
        sizes: (n,) 1 or more each.
        values: (n,) above 0.
        room: what the sizes of those taken may come to; 0 or more.
    """
    if sizes.sum() <= room:
        return np.ones(len(sizes), dtype=np.bool_)
    return _choose(sizes, values, room)
