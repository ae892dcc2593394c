"""What was observed so far, as sufficient statistics that fade."""

from dataclasses import dataclass

import numpy as np

from interference.online.observing import Observations
from sim.arrays import FloatArray


@dataclass(frozen=True)
class Evidence:
    """Observations of ln(slow-down), cell by cell of T GPU types and P x P ordered pairs."""

    at_s: float  # time of the last update
    weight: FloatArray  # (T, P, P) [type, victim, aggressor] how many, each faded by its age
    total: FloatArray  # (T, P, P) sum of ln(slow-down), weighted alike

    def mean(self) -> FloatArray:
        """(T, P, P) weighted mean of ln(slow-down); 0 where nothing was observed."""
        return np.divide(
            self.total, self.weight, out=np.zeros_like(self.total), where=self.weight > 0
        )


def no_evidence(gpu_types: int, profiles: int) -> Evidence:
    """Nothing observed at time 0."""
    shape = (gpu_types, profiles, profiles)
    return Evidence(0.0, np.zeros(shape), np.zeros(shape))


def updated(evidence: Evidence, seen: Observations, half_life_s: float) -> Evidence:
    """The evidence at `seen.at_s`: the old one faded, the new one added.

    weight <- weight * 2^(-age / half-life) + sum of compute_share^2, since an observation whose
    step is partly communication is that much less precise; likewise the totals. A plain conjugate
    normal update for an infinite half-life; else exponential forgetting, under which the posterior
    falls back to the prior where nothing new is seen (Kulhavy and Zarrop, "On a general concept of
    forgetting", International Journal of Control 58, 1993).
    """
    kept = 0.5 ** ((seen.at_s - evidence.at_s) / half_life_s)
    weight, total = evidence.weight * kept, evidence.total * kept
    cells = (seen.gpu_type, seen.victim, seen.aggressor)
    worth = seen.compute_share**2
    np.add.at(weight, cells, worth)
    np.add.at(total, cells, worth * np.log(seen.slowdown))
    return Evidence(seen.at_s, weight, total)
