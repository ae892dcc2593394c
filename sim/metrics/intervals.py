"""Confidence intervals over windows and seeds; never over the jobs of one run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray


@dataclass(frozen=True)
class Interval:
    """A centre with a two-sided confidence interval over `count` values."""

    centre: float
    low: float  # NaN where count is below 2: one value has no spread
    high: float
    count: int
    clusters: int | None = None  # of values that are alike; None: values are independent
    effective: float | None = None  # independent values that they are worth; NaN: cannot be told


def mean_interval(values: FloatArray | Sequence[float], confidence: float) -> Interval:
    """Mean of `values` (n,) with Student's t interval; assumes independent values.

    Raises:
        ValueError: no values, or `confidence` is not between 0 and 1.
    """
    from scipy import stats  # heavy: only reports need it

    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        raise ValueError("an interval needs at least one value; none was given")
    check_confidence(confidence)
    mean, count = float(np.mean(array)), len(array)
    if count == 1:
        return Interval(mean, float("nan"), float("nan"), count)
    half = float(stats.t.ppf(0.5 + confidence / 2, count - 1))
    half *= float(np.std(array, ddof=1)) / count**0.5
    return Interval(mean, mean - half, mean + half, count)


def ratio_interval(
    ours: FloatArray | Sequence[float], theirs: FloatArray | Sequence[float], confidence: float
) -> Interval:
    """Geometric mean of ours/theirs, paired by position (n,), with the t interval of the logs.

    Pairing removes what the windows have in common, which is most of their spread.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    logs = mean_interval(log_ratios(ours, theirs), confidence)
    low, high = float(np.exp(logs.low)), float(np.exp(logs.high))
    return Interval(float(np.exp(logs.centre)), low, high, logs.count)


def log_ratios(
    ours: FloatArray | Sequence[float], theirs: FloatArray | Sequence[float]
) -> FloatArray:
    """(n,) logs of ours/theirs, paired by position.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    top, bottom = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} values against {len(bottom)}; pairs need equally many")
    if not (np.all(top > 0) and np.all(bottom > 0)):
        raise ValueError("a ratio of logs needs values above 0; drop windows without finished jobs")
    logs: FloatArray = np.log(top) - np.log(bottom)
    return logs


def check_confidence(confidence: float) -> None:
    """Raise a ValueError unless `confidence` is a share between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1, like 0.95")
