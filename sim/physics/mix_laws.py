"""What mixes of three and more tenants do, given their pairs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.mix_table import FEWEST, MOST_AGGRESSORS, MixTable, mix_table
from sim.physics.pair_table import PairTable

MOST_TENANTS = 60  # of a GPU: compiled code holds them as bits of a number


class MixLaw(Protocol):
    """Says what several tenants of a GPU do to another one."""

    def table(self, pairs: PairTable) -> MixTable | None:
        """Table of mixes over the pairs' profiles; None: the excesses of the pairs add up."""


@dataclass(frozen=True)
class PairSum:
    """The excesses of the pairs add up; no table is needed."""

    def table(self, pairs: PairTable) -> MixTable | None:
        """None."""
        del pairs
        return None


PAIR_SUM = PairSum()


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """excess = (sum of the pairs' excesses to the `power`) to the 1 / `power`.

    Power 1 is the sum of the pairs. The larger it is, the nearer is a mix to the worst of its
    pairs; below 1 mixes are worse than their pairs together.
    """

    power: float
    most_aggressors: int  # in the table; larger mixes go by the rule of `sim.physics.slowing`
    max_tenants: int  # of a GPU: a table of more is not asked for

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0.0 < self.power < float("inf"):
            raise PhysicsError(f"mixes.power is {self.power}; it must be a finite number above 0")
        if not FEWEST <= self.most_aggressors <= MOST_AGGRESSORS:
            raise PhysicsError(
                f"mixes.most_aggressors is {self.most_aggressors}; it must be {FEWEST} to "
                f"{MOST_AGGRESSORS}"
            )
        if self.max_tenants > MOST_TENANTS:
            raise PhysicsError(
                f"max_tenants is {self.max_tenants}; with mixes=power it must be at most "
                f"{MOST_TENANTS}"
            )

    def table(self, pairs: PairTable) -> MixTable | None:
        """Mixes of the law; None where they are the pairs' sums, or no GPU holds one.

        Raises:
            PhysicsError: the table would be too large.
        """
        most = min(self.most_aggressors, self.max_tenants - 1)
        if self.power == 1.0 or most < FEWEST:
            return None
        excess = pairs.slowdown - 1.0

        def predict(kind: int, victim: int, mixes: IntArray) -> FloatArray:
            return 1.0 + norm(excess[kind, victim][mixes], self.power)

        return mix_table(pairs, most, predict)


def norm(excess: FloatArray, power: float) -> FloatArray:
    """(N,) power norms of the rows of (N, k), scaled by the largest lest powers overflow."""
    worst = excess.max(axis=1, keepdims=True)
    scaled = excess / np.where(worst > 0.0, worst, 1.0)
    total: FloatArray = worst[:, 0] * (scaled**power).sum(axis=1) ** (1.0 / power)
    return total
