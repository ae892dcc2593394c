"""The fewest-servers choice that `consolidated` waits for and `packed` prefers."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel


@array_kernel
def best_fit_server(servers: IntArray, usable: IntArray, gang: int, banned: IntArray) -> int:
    """Server with the fewest sufficient usable GPUs, lowest index on ties; -1 if none."""
    best = -1
    for server in servers:
        if usable[server] < gang or banned[server] != 0:
            continue
        if best < 0 or usable[server] < usable[best]:
            best = server
    return best


@array_kernel
def fills_largest(sizes: IntArray, gang: int) -> bool:
    """Whether `gang` could ever fill gang // L servers of the largest size L and one more.

    `sizes` (s,) are the GPUs of each server that the gang could ever use. Always so where servers
    are of one size and together hold the gang.
    """
    largest = max(0, sizes.max()) if len(sizes) > 0 else 0
    if largest == 0:
        return False
    whole = gang // largest
    rest = gang - whole * largest
    of_largest, with_rest = 0, 0
    for size in sizes:
        of_largest += size == largest
        with_rest += size >= rest
    return of_largest >= whole and (rest == 0 or with_rest > whole)


@array_kernel
def fewest_servers(
    servers: IntArray,  # (s,) owned, ascending
    usable: IntArray,  # (S,) usable GPUs of each server
    size: IntArray,  # (S,) GPUs of each server that the gang could ever use
    gang: int,
) -> IntArray:
    """Servers, in order of filling, of the placement on the fewest servers `gang` could ever use.

    One server if the gang fits in one: the one with the fewest sufficient usable GPUs. Else
    gang // L servers of the largest size L that are wholly usable, lowest index first, and the
    remainder best-fit on one more. Where sizes differ so that this can never be
    (`fills_largest`): the servers with most usable GPUs, no more of them than the gang needs of
    the largest. Ties go to the lowest index. Empty if it is not there now.
    """
    sizes = size[servers]
    if not fills_largest(sizes, gang):
        return _most_usable(servers, usable, sizes, gang)
    largest = sizes.max()
    banned = np.zeros(len(usable), dtype=np.int64)
    whole = gang // largest if gang > largest else 0
    chosen = np.empty(whole + 1, dtype=np.int64)
    found = 0
    for server in servers:
        if found < whole and size[server] == largest and usable[server] == largest:
            chosen[found] = server
            banned[server] = 1
            found += 1
    if found < whole:
        return chosen[:0]
    rest = gang - whole * largest
    if rest > 0:
        last = best_fit_server(servers, usable, rest, banned)
        if last < 0:
            return chosen[:0]
        chosen[found] = last
        found += 1
    return chosen[:found]


@array_kernel
def _most_usable(servers: IntArray, usable: IntArray, sizes: IntArray, gang: int) -> IntArray:
    """The servers with most usable GPUs, as many as the largest servers that would hold `gang`."""
    few, held = 0, 0
    for size in -np.sort(-sizes):
        if held >= gang:
            break
        held += size
        few += 1
    fullest = servers[np.argsort(-usable[servers], kind="mergesort")][:few]
    if held < gang or usable[fullest].sum() < gang:
        return servers[:0]
    return fullest
