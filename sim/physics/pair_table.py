"""Slow-down of pairs as a table, the additive fit of it, and which pairs do not fit into memory."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError

AXES = 3


@dataclass(frozen=True)
class PairTable:
    """Pairwise co-location on one GPU; mixes of more add up, unless `Physics.mixes` says else."""

    slowdown: FloatArray  # (T, P, P) [gpu type, victim, aggressor], time ratio >= 1
    feasible: BoolArray  # (T, P, P) False where the pair does not fit in memory; symmetric
    source: str  # "none", "measured", "shipped", or the predicting model's name

    def __post_init__(self) -> None:
        """Check shapes, finiteness, the floor of 1 and symmetric feasibility."""
        if self.slowdown.shape != self.feasible.shape or len(self.slowdown.shape) != AXES:
            raise PhysicsError(f"pair table: shapes {self.slowdown.shape}, {self.feasible.shape}")
        if not np.all(np.isfinite(self.slowdown)) or np.any(self.slowdown < 1.0):
            raise PhysicsError("pair table: a slow-down is below 1 or not finite")
        if np.any(self.feasible != self.feasible.transpose(0, 2, 1)):
            raise PhysicsError("pair table: feasible(a, b) differs from feasible(b, a)")


BAD_SHARE = 0.5  # a profile that failed in more than this share of its pairs counts as too large


def probably_infeasible(tried: BoolArray, failed: BoolArray) -> BoolArray:
    """(P, P) True where one side failed in most of its tried pairs.

    Args:
        tried: (P, P) symmetric, True where the pair was measured.
        failed: (P, P) symmetric, True where it did not fit.
    """
    share = failed.sum(axis=1) / np.maximum(tried.sum(axis=1), 1)  # (P,)
    large = share > BAD_SHARE
    return np.asarray(large[:, None] | large[None, :])


@dataclass(frozen=True)
class AdditiveFit:
    """Fitted terms of one GPU type over P profiles."""

    constant: float
    victim: FloatArray  # (P,) mean 0 over the profiles seen; 0 for a profile never seen
    aggressor: FloatArray  # (P,)
    residual_sd: float  # of ln(normalised speed), over the rows fitted

    def log_norm(self) -> FloatArray:
        """(P, P) predicted ln(normalised speed) [victim, aggressor]."""
        return self.constant + self.victim[:, None] + self.aggressor[None, :]


def fit_additive(
    *, victim: IntArray, aggressor: IntArray, norm: FloatArray, profiles: int
) -> AdditiveFit:
    """Least squares over N directed rows.

    Args:
        victim: (N,) profile whose speed was measured.
        aggressor: (N,) profile beside it.
        norm: (N,) co-located / isolated speed, above 0.
        profiles: P.
    """
    rows, target = np.arange(len(norm)), np.log(norm)
    constant = float(target.mean())
    design = np.zeros((len(norm), 2 * profiles))
    design[rows, victim] = 1.0
    design[rows, profiles + aggressor] = 1.0
    solution, *_ = np.linalg.lstsq(design, target - constant, rcond=None)  # smallest one
    terms = np.asarray(solution, dtype=np.float64)
    residual = target - constant - design @ terms
    return AdditiveFit(constant, terms[:profiles], terms[profiles:], float(residual.std()))
