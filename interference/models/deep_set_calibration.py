"""Mean and spread of several members, and the factor that makes their intervals cover."""

import math

import numpy as np

from interference.models.intervals import LEVEL, NORMAL
from sim.arrays import BoolArray, FloatArray


def pooled(
    mean: FloatArray, sd: FloatArray, who: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """(N,) mean and spread of the mixture of (K, N) members, of each row those of `who`."""
    weight = np.ones(mean.shape) if who is None else who.astype(np.float64)
    weight = weight / weight.sum(axis=0)
    middle = (weight * mean).sum(axis=0)
    variance = (weight * (np.square(sd) + np.square(mean - middle))).sum(axis=0)
    return middle, np.sqrt(variance)


def conformal_factor(
    target: FloatArray, mean: FloatArray, sd: FloatArray, outside: BoolArray
) -> float:
    """What makes intervals cover LEVEL of the rows, each told by the members that left it out."""
    judged = outside.any(axis=0)
    middle, spread = pooled(mean[:, judged], sd[:, judged], outside[:, judged])
    wrong = np.sort(np.abs(target[judged] - middle) / spread)
    rank = min(math.ceil((len(wrong) + 1) * LEVEL), len(wrong))
    return float(wrong[rank - 1]) / NORMAL
