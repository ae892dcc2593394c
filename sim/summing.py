"""Sums in compiled code that come out as NumPy's do, to the last digit."""

import numpy as np

from sim.arrays import FloatArray
from sim.jit import array_kernel, kernel

BLOCK = 128  # up to so many numbers are added in eight columns
COLUMNS = 8
ADD = -1  # in the list of what is to do: add the last two sums


@kernel
def block_sum(values: FloatArray, first: int, count: int) -> float:
    """Sum of up to BLOCK values from `first` on, as NumPy gives it."""
    total, last = 0.0, first + count
    at = first
    if count >= COLUMNS:
        a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
        e, f, g, h = values[at + 4], values[at + 5], values[at + 6], values[at + 7]
        at += COLUMNS
        while at + COLUMNS <= last:  # eight running sums, added up only at the end
            a, b, c, d = a + values[at], b + values[at + 1], c + values[at + 2], d + values[at + 3]
            e, f = e + values[at + 4], f + values[at + 5]
            g, h = g + values[at + 6], h + values[at + 7]
            at += COLUMNS
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while at < last:  # what fills no eight comes last
        total += values[at]
        at += 1
    return float(total)


@array_kernel
def pairwise_sum(values: FloatArray) -> float:
    """Sum as `values.sum()` gives it: halves are added on their own, small blocks in columns."""
    if len(values) <= BLOCK:
        return block_sum(values, 0, len(values))
    todo, sums = np.empty(192, dtype=np.int64), np.empty(64)
    todo[0] = len(values)
    left, done, at = 1, 0, 0
    while left > 0:  # own stack, no recursion; left halves first, as `at` goes
        left -= 1
        count = todo[left]
        if count == ADD:
            done -= 1
            sums[done - 1] += sums[done]
        elif count <= BLOCK:
            sums[done] = block_sum(values, at, count)
            done, at = done + 1, at + count
        else:
            half = count // 2 - count // 2 % COLUMNS
            todo[left], todo[left + 1], todo[left + 2] = ADD, count - half, half
            left += 3
    return float(sums[0])


@array_kernel
def mean(values: FloatArray) -> float:
    """Mean as `values.mean()` gives it; 0 of nothing."""
    return pairwise_sum(values) / len(values) if len(values) > 0 else 0.0
