"""Additive interference: ln(normalised speed) = constant + victim term + aggressor term."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray


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
