"""Slow-down in a mix of three and more by a `MixTable`; the others are a set of bits."""

from sim.arrays import IntArray
from sim.jit import kernel
from sim.physics.slowing_tables import Slowing, milli_of, profile_of


@kernel
def slow_in_mix(slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int) -> float:
    """Slow-down of the i-th of the first `count` of a crowd on a GPU of type `kind`.

    Who has a smaller part of the GPU is there less of the time: all are there for as much as the
    smallest part, all but that one for what the second smallest has beyond it, and so on.
    """
    slow, below, there = 1.0, 0, ((1 << count) - 1) ^ (1 << i)
    while there != 0:
        smallest = _smallest(crowd, count, there)
        milli = milli_of(crowd, smallest)
        if milli > below:
            slow += _excess(slowing, kind, crowd, count, i, there) * ((milli - below) / 1000.0)
            below = milli
        there ^= 1 << smallest
    return slow


@kernel
def _smallest(crowd: IntArray, count: int, there: int) -> int:
    """Who of those there, a set of bits, has the smallest part of the GPU."""
    found = -1
    for k in range(count):
        if (there >> k) & 1 and (found < 0 or milli_of(crowd, k) < milli_of(crowd, found)):
            found = k
    return found


@kernel
def _excess(
    slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int, there: int
) -> float:  # fmt: skip
    """Excess of the i-th beside those there, had each the whole GPU."""
    if _size(there) > slowing.most_aggressors:
        return _excess_beyond(slowing, kind, crowd, count, i, there)
    column = _column(slowing.slowdown.shape[1], crowd, count, there)
    return float(slowing.slowdown[kind, profile_of(crowd, i), column] - 1.0)


@kernel
def _excess_beyond(
    slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int, there: int
) -> float:  # fmt: skip
    """The pairs' sum times the most that the table says of a part of K over its own pairs' sum.

    A part without any excess of its pairs counts as it is.
    """
    victim, profiles = profile_of(crowd, i), slowing.slowdown.shape[1]
    whole = _pair_sum(slowing, kind, crowd, count, i, there)
    worst, chosen = 0.0, (1 << slowing.most_aggressors) - 1
    while chosen < (1 << _size(there)):
        part = _spread(chosen, there)
        excess = slowing.slowdown[kind, victim, _column(profiles, crowd, count, part)] - 1.0
        pairs = _pair_sum(slowing, kind, crowd, count, i, part)
        if pairs > 0.0:
            excess *= whole / pairs
        worst = max(worst, excess)
        chosen = _next_chosen(chosen)
    return worst


@kernel
def _pair_sum(
    slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int, there: int
) -> float:  # fmt: skip
    total = 0.0
    for k in range(count):
        if (there >> k) & 1:
            total += slowing.slowdown[kind, profile_of(crowd, i), profile_of(crowd, k)] - 1.0
    return total


@kernel
def _column(profiles: int, crowd: IntArray, count: int, there: int) -> int:
    """Column of the profiles of those there (`sim.physics.mix_table.column_of`)."""
    before = _size(there) - 1
    number = _choose(profiles + before, before) - 1  # columns of fewer
    for k in range(count):
        if (there >> k) & 1:
            mine, place = profile_of(crowd, k), 1
            for j in range(count):
                other = profile_of(crowd, j)
                place += ((there >> j) & 1) * (other < mine or (other == mine and j < k))
            number += _choose(mine + place - 1, place)
    return number


@kernel
def _choose(n: int, k: int) -> int:
    """Ways to choose `k` of `n`."""
    ways = 1
    for at in range(k):
        ways = ways * (n - at) // (at + 1)
    return ways


@kernel
def _size(there: int) -> int:
    count = 0
    while there != 0:
        there &= there - 1
        count += 1
    return count


@kernel
def _spread(chosen: int, there: int) -> int:
    """Those of `there` whose rank among them is a bit of `chosen`."""
    part = 0
    while there != 0:
        lowest = there & -there
        part |= lowest * (chosen & 1)
        chosen >>= 1
        there ^= lowest
    return part


@kernel
def _next_chosen(chosen: int) -> int:
    """The next larger number with as many bits."""
    lowest = chosen & -chosen
    carried = chosen + lowest
    return int((((carried ^ chosen) >> 2) // lowest) | carried)
