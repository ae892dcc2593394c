"""Slow-down of co-located jobs as a table over the finite catalogue of profiles."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray
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
