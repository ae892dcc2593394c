"""Lists of unequal length, one a job, as one array and the place where each list begins."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import IntArray


def starts(lengths: IntArray | Sequence[int]) -> IntArray:
    """(J + 1,) where each of J lists of these lengths begins, and the end of the last."""
    first = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=first[1:])
    return first


def owners(first: IntArray) -> IntArray:
    """(sum,) the list that each entry belongs to."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def picked(first: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The lists at `rows`, in that order: where they begin, and which entries they hold."""
    lengths = np.diff(first)[rows]
    begin = starts(lengths)
    entries = np.arange(begin[-1]) + np.repeat(first[rows] - begin[:-1], lengths)
    return begin, entries
