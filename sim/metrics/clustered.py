"""Intervals over values that come in clusters, like windows of one stretch of a trace."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.metrics.intervals import Interval, check_confidence, log_ratios, mean_interval

RESAMPLES = 9_999
SEED = 0  # equal values give equal intervals
FEWEST = 2  # clusters that can be resampled


def clustered_mean_interval(
    values: FloatArray | Sequence[float], clusters: Sequence[int], confidence: float
) -> Interval:
    """Mean of `values` (n,) with a percentile interval of the bootstrap by cluster.

    Whole clusters are drawn with replacement (Davison and Hinkley, *Bootstrap Methods and their
    Application*, 1997, 3.8): values of one are not independent. With a single cluster there is
    nothing to draw; the interval is then Student's t over its values and says nothing of others.

    Args:
        values: n >= 1.
        clusters: (n,) which cluster each value is of.
        confidence: of the interval; `most_coverage` tells whether so few clusters can have it.

    Raises:
        ValueError: no values, lengths differ, or `confidence` is not between 0 and 1.
    """
    check_confidence(confidence)
    array = np.asarray(values, dtype=np.float64)
    place, sizes = _grouped(array, clusters)
    count, effective = len(sizes), effective_count(array, clusters)
    if count < FEWEST:
        alone = mean_interval(array, confidence)
        return replace(alone, clusters=count, effective=effective)
    sums = np.bincount(place, weights=array)
    draws = np.random.default_rng(SEED).multinomial(count, [1 / count] * count, RESAMPLES)
    tail = (1 - confidence) / 2
    low, high = np.quantile((draws @ sums) / (draws @ sizes), [tail, 1 - tail])
    return Interval(float(array.mean()), float(low), float(high), len(array), count, effective)


def clustered_ratio_interval(
    ours: FloatArray | Sequence[float],
    theirs: FloatArray | Sequence[float],
    clusters: Sequence[int],
    confidence: float,
) -> Interval:
    """Geometric mean of ours/theirs, paired by position (n,), with the interval of the logs.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    logs = clustered_mean_interval(log_ratios(ours, theirs), clusters, confidence)
    centre, low, high = (float(np.exp(each)) for each in (logs.centre, logs.low, logs.high))
    return replace(logs, centre=centre, low=low, high=high)


def effective_count(values: FloatArray | Sequence[float], clusters: Sequence[int]) -> float:
    """How many independent values n clustered ones are worth: n / (1 + (m - 1) r), at most n.

    r is the intra-cluster correlation of the one-way analysis of variance, cut to [0, 1]; m the
    mean cluster size, weighted by size (Kish, *Survey Sampling*, 1965). NaN for one cluster, whose
    r cannot be told; n where every cluster has one value.
    """
    array = np.asarray(values, dtype=np.float64)
    place, sizes = _grouped(array, clusters)
    total, count = len(array), len(sizes)
    if count < FEWEST:
        return float("nan")
    if count == total:
        return float(total)
    means = np.bincount(place, weights=array) / sizes
    between = float(sizes @ (means - array.mean()) ** 2) / (count - 1)
    within = float(np.sum((array - means[place]) ** 2)) / (total - count)
    weighted_size = float(sizes @ sizes) / total
    size = (total - weighted_size) / (count - 1)
    spread = between + (size - 1) * within
    correlation = min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 0.0
    return total / (1 + (weighted_size - 1) * correlation)


def most_coverage(clusters: int) -> float:
    """The confidence that a percentile interval over so many clusters can reach at best.

    It never leaves the range of the clusters' means, and k draws all lie on one side of the median
    with probability 2 ** (1 - k).
    """
    return 1 - 2.0 ** (1 - clusters)


def _grouped(values: FloatArray, clusters: Sequence[int]) -> tuple[IntArray, IntArray]:
    """(n,) which cluster each value is of, from 0, and (K,) how many values each has."""
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values in {len(clusters)} clusters; give one for each")
    if not len(values):
        raise ValueError("an interval needs at least one value; none was given")
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    return place, np.bincount(place)
