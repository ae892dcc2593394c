"""From a believed table and evidence to the table that both together make likely."""

import math
from dataclasses import dataclass, replace

import numpy as np

from interference.online.evidence import Evidence
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.physics.pair_table import PairTable


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Standard deviations in ln(slow-down): how wrong a belief may be, and one observation.

    ln(slow-down) of victim v beside aggressor a = ln(believed) + u_v + w_a + e_va.
    """

    victim: float  # of u_v, common to all pairs in which v suffers
    aggressor: float  # of w_a, common to all pairs in which a disturbs
    pair: float  # of e_va, of this pair alone
    observation: float  # of one measured ln(step)

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            GpuYardError: naming the key, the value and the rule.
        """
        for key, value in vars(self).items():
            if not 0 < value < math.inf:
                raise GpuYardError(f"spread.{key} is {value!r}; it must be a number above 0")


def posterior_table(prior: PairTable, evidence: Evidence, spread: Spread) -> PairTable:
    """The believed table, each slow-down moved to its posterior mean, none below 1."""
    ln_prior = np.log(prior.slowdown)
    surprise = np.where(evidence.weight > 0, evidence.mean() - ln_prior, 0.0)
    moved = [
        _shift(*cells, spread) if cells[0].any() else np.zeros(cells[0].shape)
        for cells in zip(evidence.weight, surprise, strict=True)
    ]
    slowdown = np.maximum(1.0, prior.slowdown * np.exp(np.stack(moved)))
    return replace(prior, slowdown=slowdown)


def _shift(weight: FloatArray, surprise: FloatArray, spread: Spread) -> FloatArray:
    """(P, P) posterior mean of u_v + w_a + e_va on one GPU type.

    With e integrated out, the mean surprise r of a cell observed n times is normal around u_v + w_a
    with variance s^2 = pair^2 + observation^2 / n; so u and w solve a ridge regression, and the
    pair's own term is pair^2 / s^2 of what they leave over. Exact, since all is normal and linear
    (Gelman et al., Bayesian Data Analysis, 3rd ed., sections 5.4 and 14.8).
    """
    seen = weight > 0
    variance = spread.pair**2 + spread.observation**2 / np.where(seen, weight, 1.0)
    precision = np.where(seen, 1.0 / variance, 0.0)
    profiles = len(weight)
    ridge = np.repeat([spread.victim**-2, spread.aggressor**-2], profiles)
    sums = np.concatenate([precision.sum(axis=1), precision.sum(axis=0)])
    normal = np.diag(sums + ridge)
    normal[:profiles, profiles:] = precision
    normal[profiles:, :profiles] = precision.T
    pull = precision * surprise
    terms = np.linalg.solve(normal, np.concatenate([pull.sum(axis=1), pull.sum(axis=0)]))
    common = terms[:profiles, None] + terms[None, profiles:]
    own: FloatArray = spread.pair**2 * precision * (surprise - common)
    return common + own
