"""The fewest-servers choice that `consolidated` waits for and `packed` prefers.

Whether it is there is a matter of two tallies of a partition's servers: `tally[n]`, how many can
give exactly n GPUs now, and `sizes[n]`, how many could were they empty.
"""

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel, kernel

NONE = -1


@kernel
def largest_of(sizes: IntArray) -> int:
    """Most GPUs that one server could ever give."""
    size = len(sizes) - 1
    while size > 0 and sizes[size] == 0:
        size -= 1
    return size


@kernel
def fills_largest(sizes: IntArray, largest: int, gang: int) -> bool:
    """Whether `gang` could ever fill gang // L servers of the largest size L and one more.

    Always so where servers are of one size and together hold the gang.
    """
    if largest == 0:
        return False
    whole = gang // largest
    rest = gang - whole * largest
    with_rest = 0
    for size in range(rest, largest + 1):
        with_rest += sizes[size]
    return bool(sizes[largest] >= whole and (rest == 0 or with_rest > whole))


@kernel
def last_level(tally: IntArray, largest: int, gang: int) -> int:
    """Where a gang fits compactly: GPUs that its last server can give, 0 where it needs none more.

    The compact place of a gang that `fills_largest`: one server if it fits in one, the one with
    fewest sufficient GPUs; else gang // L servers of the largest size L that are wholly usable, and
    the rest on the one with fewest sufficient GPUs of the others. NONE: it is not there now.
    """
    whole = gang // largest if gang > largest else 0
    rest = gang - whole * largest
    if tally[largest] < whole:
        return NONE
    if rest == 0:
        return 0
    for usable in range(rest, largest):
        if tally[usable] > 0:
            return usable
    return largest if tally[largest] > whole else NONE


@kernel
def fewest_of_largest(sizes: IntArray, gang: int) -> int:
    """Servers, the largest first, that would hold `gang` were they empty; NONE: all would not."""
    held, few = 0, 0
    for size in range(len(sizes) - 1, 0, -1):
        for _ in range(sizes[size]):
            if held >= gang:
                return few
            held += size
            few += 1
    return few if held >= gang else NONE


@kernel
def fullest_hold(tally: IntArray, largest: int, few: int) -> int:
    """Usable GPUs of the `few` servers that can give most."""
    held = 0
    for usable in range(largest, 0, -1):
        count = min(few, tally[usable])
        held += count * usable
        few -= count
    return held


@kernel
def fits_compactly(tally: IntArray, sizes: IntArray, gang: int) -> bool:
    """Whether a gang has room now on the fewest servers that it could ever use.

    Where servers differ so that it can never be as `last_level` says: on the servers that can give
    most, no more of them than it needs of the largest.
    """
    largest = largest_of(sizes)
    if fills_largest(sizes, largest, gang):
        return last_level(tally, largest, gang) != NONE
    few = fewest_of_largest(sizes, gang)
    return bool(few != NONE and fullest_hold(tally, len(sizes) - 1, few) >= gang)


@array_kernel
def fewest_servers(
    servers: IntArray,  # (s,) owned, ascending
    usable: IntArray,  # (S,) usable GPUs of each server
    size: IntArray,  # (S,) GPUs of each server that the gang could ever use
    gang: int,
) -> IntArray:
    """Servers, in order of filling, of the placement that `fits_compactly` says is there.

    Of servers that can give the same the lowest index goes first. Empty if it is not there now.
    """
    most = max(usable.max(), size.max())
    tally, sizes = np.zeros(most + 1, dtype=np.int64), np.zeros(most + 1, dtype=np.int64)
    for server in servers:
        tally[usable[server]] += 1
        sizes[size[server]] += 1
    if not fits_compactly(tally, sizes, gang):
        return servers[:0]
    largest = largest_of(sizes)
    if not fills_largest(sizes, largest, gang):
        fullest = servers[np.argsort(-usable[servers], kind="mergesort")]
        return fullest[: fewest_of_largest(sizes, gang)]
    level, whole = last_level(tally, largest, gang), gang // largest if gang > largest else 0
    chosen, last = np.empty(whole + 1, dtype=np.int64), NONE
    found = 0
    for server in servers:
        if found < whole and usable[server] == largest:
            chosen[found] = server
            found += 1
        elif last == NONE and level > 0 and usable[server] == level:
            last = server
    chosen[found] = last
    return chosen[: found + (1 if level > 0 else 0)]
