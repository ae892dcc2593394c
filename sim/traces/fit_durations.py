"""Log-normal mixtures fitted to durations by expectation maximisation (Dempster et al., 1977)."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.duration_mixture import DurationMixture

CLASS_ENDS = (1, 4, 8, 32)  # gangs of a class share a mixture; the last class has no end
EVERY_GANG = 1_000_000
LEAST_IN_CLASS = 60  # smaller classes join their neighbour
LEAST_IN_PART = 25  # jobs for each log-normal of a mixture
MOST_POINTS = 20_000  # evenly spaced order statistics stand for a larger class
ROUNDS = 300
NARROWEST = 0.03  # sigma of a part; a spike of equal durations would go to 0
SETTLED = 1e-7  # change of the mean log-likelihood of one job that ends the rounds
LN_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


def fit_durations(
    num_gpus: IntArray, duration_s: FloatArray, parts: int
) -> tuple[DurationMixture, ...]:
    """One mixture a class of gang sizes (1, 2-4, 5-8, 9-32, more); small classes are joined.

    Args:
        num_gpus: (J,).
        duration_s: (J,) below 1 s counts as 1 s.
        parts: log-normals in a mixture, where a class has jobs enough.
    """
    found = []
    low = 0
    for end in (*CLASS_ENDS, EVERY_GANG):
        rows = (num_gpus > low) & (num_gpus <= end)
        above = int(np.sum(num_gpus > end))
        if rows.sum() < LEAST_IN_CLASS and above >= LEAST_IN_CLASS:
            continue  # joins the class above
        if above < LEAST_IN_CLASS:
            rows, end = num_gpus > low, EVERY_GANG
        ln_s = np.log(np.maximum(duration_s[rows], 1.0))
        found.append(_mixture(ln_s, end, parts))
        low = end
        if end == EVERY_GANG:
            break
    return tuple(found)


def fit_normals(values: FloatArray, parts: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, means and sigmas (K,) of a mixture of normals, by ascending mean."""
    points = np.sort(values)
    if len(points) > MOST_POINTS:
        place = (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS * len(points)
        points = points[place.astype(np.int64)]
    mean = np.quantile(points, (np.arange(parts) + 0.5) / parts)
    sigma = np.full(parts, max(float(points.std()), NARROWEST))
    weight = np.full(parts, 1.0 / parts)
    last = -np.inf
    for _ in range(ROUNDS):
        share, level = _shares(points, weight, mean, sigma)
        total = np.maximum(share.sum(axis=0), 1e-9)
        weight = total / total.sum()
        mean = (share * points[:, None]).sum(axis=0) / total
        spread = (share * (points[:, None] - mean) ** 2).sum(axis=0) / total
        sigma = np.maximum(np.sqrt(spread), NARROWEST)
        if level - last < SETTLED:
            break
        last = level
    order = np.argsort(mean)
    return weight[order], mean[order], sigma[order]


def _shares(
    points: FloatArray, weight: FloatArray, mean: FloatArray, sigma: FloatArray
) -> tuple[FloatArray, float]:
    """(N, K) probability of each part for each point, and the mean log-likelihood."""
    ln = np.log(weight) - np.log(sigma) - LN_ROOT_2PI
    ln = ln - 0.5 * ((points[:, None] - mean) / sigma) ** 2
    top = ln.max(axis=1, keepdims=True)
    whole = np.exp(ln - top)
    sums = whole.sum(axis=1, keepdims=True)
    return whole / sums, float(np.mean(top + np.log(sums)))


def _mixture(ln_s: FloatArray, end: int, parts: int) -> DurationMixture:
    kept = min(parts, max(len(ln_s) // LEAST_IN_PART, 1))
    weight, mean, sigma = fit_normals(ln_s, kept)
    rounded = _rounded_shares(weight)
    return DurationMixture(
        up_to_gang=end,
        weights=rounded,
        mu=tuple(np.round(mean, 3).tolist()),
        sigma=tuple(np.round(sigma, 3).tolist()),
    )


def _rounded_shares(shares: FloatArray) -> Sequence[float]:
    return tuple(np.round(shares, 4).tolist())
