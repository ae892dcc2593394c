"""Whether a placer would find room for a gang: a few comparisons, no scan of the servers."""

from sim.arrays import IntArray
from sim.compiled.plan import CONSOLIDATED
from sim.jit import inlined


@inlined
def fits_compactly(count: IntArray, room: int, gang: int) -> bool:
    """Whether `sim.compactness.fewest_servers` would find servers.

    g // L whole servers, and one more with the rest: servers that are whole also have the rest,
    so it takes one more with at least the rest than are taken whole.
    """
    largest = count.shape[1] - 2
    whole = gang // largest if gang > largest else 0
    rest = gang - whole * largest
    if count[room, largest] < whole:
        return False
    found = 1 if rest == 0 else -whole
    usable = largest
    while found <= 0 and usable >= rest:
        found += count[room, usable]
        usable -= 1
    return found > 0


@inlined
def fits(count: IntArray, room: int, placer: int, gang: int) -> bool:
    """Whether the placer would place `gang` now; if not, it would not place a larger one."""
    if gang > count[room, count.shape[1] - 1]:
        return False
    return placer != CONSOLIDATED or fits_compactly(count, room, gang)
