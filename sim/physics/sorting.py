"""Sorting in place, for compiled code that may not allocate (numpy's sort does)."""

from sim.arrays import IntArray
from sim.jit import kernel

FEW = 24  # numbers up to which insertion is fastest


@kernel
def _sink(values: IntArray, at: int, count: int) -> None:
    """Let the value at `at` fall to its place in a heap whose largest value is first."""
    value = values[at]
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[at] = values[child]
        at = child
    values[at] = value


@kernel
def sort_up(values: IntArray, count: int) -> None:
    """Sort the first `count` values, ascending: by insertion, or with a heap if there are many."""
    if count <= FEW:
        for last in range(1, count):
            value, at = values[last], last
            while at > 0 and values[at - 1] > value:
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
        return
    for at in range(count // 2 - 1, -1, -1):
        _sink(values, at, count)
    for last in range(count - 1, 0, -1):
        values[0], values[last] = values[last], values[0]
        _sink(values, 0, last)
