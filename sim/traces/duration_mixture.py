"""Durations as a mixture of log-normals: the parameter and the draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError
from sim.traces.spec_rules import check_shares


@dataclass(frozen=True, kw_only=True)
class DurationMixture:
    """Durations of gangs up to a size: a mixture of log-normals, in ln seconds."""

    up_to_gang: int  # the first mixture that reaches a gang's size is the one it uses
    weights: Sequence[float]  # (K,) they sum to 1 (within a rounding of 1 %)
    mu: Sequence[float]  # (K,)
    sigma: Sequence[float]  # (K,)

    def __post_init__(self) -> None:
        """Check lengths and ranges.

        Raises:
            TraceError: naming the values.
        """
        what = f"durations up to gang {self.up_to_gang}"
        if not len(self.weights) == len(self.mu) == len(self.sigma) > 0:
            raise TraceError(f"{what}: lists of unequal length")
        check_shares(f"{what}: weights", self.weights)
        if min(self.sigma) < 0:
            raise TraceError(f"{what}: sigma {self.sigma} below 0")
        if not (np.isfinite(self.mu).all() and np.isfinite(self.sigma).all()):
            raise TraceError(f"{what}: mu {self.mu} and sigma {self.sigma} must be finite")


def draw_durations(
    mixtures: Sequence[DurationMixture], num_gpus: IntArray, rng: np.random.Generator
) -> FloatArray:
    """(L,) seconds from each gang's mixture, not clipped."""
    which = rng.random(len(num_gpus))
    normal = rng.standard_normal(len(num_gpus))
    mixture_of = np.searchsorted([mixture.up_to_gang for mixture in mixtures], num_gpus)
    seconds = np.empty(len(num_gpus))
    for index, mixture in enumerate(mixtures):
        rows = mixture_of == index
        edges = np.cumsum(mixture.weights)[:-1] / np.sum(mixture.weights)
        part = np.searchsorted(edges, which[rows], side="right")
        mu, sigma = np.asarray(mixture.mu)[part], np.asarray(mixture.sigma)[part]
        with np.errstate(over="ignore"):  # clipped to longest_s by the caller
            seconds[rows] = np.exp(mu + sigma * normal[rows])
    return seconds
