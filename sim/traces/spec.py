"""Parameters of the calibrated generator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.errors import TraceError

HOURS_A_DAY = 24
DAYS_A_WEEK = 7


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
        if not len(self.weights) == len(self.mu) == len(self.sigma) > 0:
            raise TraceError(f"durations up to gang {self.up_to_gang}: lists of unequal length")
        _check_shares(f"durations up to gang {self.up_to_gang}: weights", self.weights)
        if min(self.sigma) < 0:
            raise TraceError(f"durations up to gang {self.up_to_gang}: sigma {self.sigma} below 0")


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """Arrivals, sizes, durations and owners of generated jobs."""

    jobs_per_h: float  # long-run mean
    dispersion_r: float  # gamma shape of the hourly noise; small is bursty
    noise_persistence: float  # correlation of the noise of neighbouring hours, 0 to below 1
    hour_factors: Sequence[float]  # (24,) relative rate by hour of the day
    weekday_factors: Sequence[float]  # (7,) relative rate, Monday first
    repeat_prob: float  # a job is its predecessor again, at the same second
    repeat_sigma: float  # spread of a repeat's duration, in ln seconds
    gang_sizes: Sequence[int]  # (B,)
    gang_probs: Sequence[float]  # (B,) they sum to 1 (within a rounding of 1 %)
    durations: Sequence[DurationMixture]  # ascending up_to_gang, the last reaches every gang
    shortest_s: float  # durations are clipped to [shortest_s, longest_s]
    longest_s: float
    vcs: int  # virtual clusters
    users_per_vc: int
    zipf_exponent: float  # share of the k-th largest owner is proportional to k ** -exponent

    def __post_init__(self) -> None:
        """Check lengths and ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        _check_factors("hour_factors", self.hour_factors, HOURS_A_DAY)
        _check_factors("weekday_factors", self.weekday_factors, DAYS_A_WEEK)
        self._check("jobs_per_h", self.jobs_per_h > 0, "must be above 0")
        self._check("dispersion_r", self.dispersion_r > 0, "must be above 0")
        self._check("noise_persistence", 0 <= self.noise_persistence < 1, "must be in [0, 1)")
        self._check("repeat_prob", 0 <= self.repeat_prob < 1, "must be in [0, 1)")
        self._check("repeat_sigma", self.repeat_sigma >= 0, "must be 0 or more")
        self._check("vcs", self.vcs >= 1, "must be at least 1")
        self._check("users_per_vc", self.users_per_vc >= 1, "must be at least 1")
        self._check("longest_s", 0 <= self.shortest_s <= self.longest_s, "must be >= shortest_s")
        self._check("gang_sizes", len(self.gang_sizes) == len(self.gang_probs) > 0,
                    "must have one entry for each of gang_probs")  # fmt: skip
        self._check("gang_sizes", min(self.gang_sizes) >= 1, "must be at least 1 GPU")
        _check_shares("workload.spec.gang_probs", self.gang_probs)
        reach = [mixture.up_to_gang for mixture in self.durations]
        self._check("durations", bool(reach) and reach == sorted(reach)
                    and reach[-1] >= max(self.gang_sizes),
                    "must ascend in up_to_gang and reach the largest of gang_sizes")  # fmt: skip

    def _check(self, key: str, good: bool, rule: str) -> None:
        if not good:
            raise TraceError(f"workload.spec.{key} is {getattr(self, key)}; it {rule}")


def _check_factors(key: str, factors: Sequence[float], length: int) -> None:
    if len(factors) != length or min(factors) < 0 or sum(factors) <= 0:
        raise TraceError(
            f"workload.spec.{key} has {len(factors)} entries {list(factors)}; it needs {length}, "
            f"none below 0, not all 0"
        )


def _check_shares(what: str, shares: Sequence[float]) -> None:
    if min(shares) < 0 or abs(float(np.sum(shares)) - 1.0) > 0.01 + 1e-9:
        raise TraceError(f"{what} is {list(shares)}; shares must be 0 or more and sum to 1")
