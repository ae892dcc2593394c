"""Draws that the generator's parts share; each takes one number a job from the stream."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray


def zipf(count: int, exponent: float) -> FloatArray:
    """(count,) weights of ranks 1, 2, ...: rank ** -exponent."""
    return np.arange(1.0, count + 1.0, dtype=np.float64) ** -float(exponent)


def choose(weights: Sequence[float] | FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """(count,) positions in `weights`, drawn in proportion to them."""
    shares = np.asarray(weights, dtype=np.float64)
    edges = np.cumsum(shares)[:-1] / shares.sum()
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def texts(values: Sequence[str]) -> TextArray:
    """(J,) a text column."""
    column: TextArray = np.empty(len(values), dtype=np.object_)
    column[:] = values
    return column
