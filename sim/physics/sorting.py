"""Sorting in place, for compiled code that may not allocate (numpy's sort does).

Shell's method: by insertion over ever smaller gaps, each a third of the one before.
"""

from sim.arrays import IntArray
from sim.jit import kernel

FEW = 24  # numbers up to which plain insertion is fastest


@kernel
def first_gap(count: int) -> int:
    """The largest gap for so many: 1, 4, 13, 40, ..."""
    gap = 1
    while count > FEW and 3 * gap + 1 < count // 2:
        gap = 3 * gap + 1
    return gap


@kernel
def sort_up(values: IntArray, count: int) -> None:
    """Sort the first `count` values, ascending."""
    gap = first_gap(count)
    while gap > 0:
        for last in range(gap, count):
            value, at = values[last], last
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3
