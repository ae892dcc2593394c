"""Whether a placer would find room for a gang: a few comparisons, no scan of the servers."""

from sim.arrays import IntArray
from sim.compiled.layout import Memory
from sim.compiled.plan import CONSOLIDATED
from sim.jit import kernel


@kernel
def fits_compactly(count: IntArray, room: int, largest: int, gang: int) -> bool:
    """Whether `sim.placing.compactness.fewest_servers` would find servers.

    g // L whole servers of the largest size L, and one more with the rest. Servers that are whole
    have the rest too, so it takes one more server with at least the rest than are taken whole.
    """
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


@kernel
def fits(memory: Memory, room: int, gang: int) -> bool:
    """Whether the placer would place `gang` now; if not, it would not place a larger one."""
    count, game = memory.tally, memory.game[0]
    if gang > count[room, count.shape[1] - 1]:
        return False
    return game.placer != CONSOLIDATED or fits_compactly(count, room, game.largest, gang)
