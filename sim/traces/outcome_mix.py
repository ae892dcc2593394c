"""How generated jobs end: completed, failed or cancelled, by the GPU-time they used."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.spec_rules import check_spec
from sim.traits import CANCELLED, COMPLETED, FAILED

REFERENCE_GPU_S = 3600.0
LARGEST_LN_ODDS = 500.0


@dataclass(frozen=True, kw_only=True)
class OutcomeMix:
    """Odds against completion, log-linear in GPU-time.

    odds(failed) / odds(completed) = exp(failed_ln_odds + failed_slope * ln(GPU-hours)), and the
    same for cancelled: in every published trace jobs that are cancelled are longer than others.
    """

    failed_ln_odds: float  # at one GPU-hour
    failed_slope: float  # a unit of ln GPU-time
    cancelled_ln_odds: float
    cancelled_slope: float

    def __post_init__(self) -> None:
        """Check that all four are finite.

        Raises:
            TraceError: naming the key and the value.
        """
        for key, value in vars(self).items():
            check_spec(f"outcomes.{key}", value, bool(np.isfinite(value)), "must be finite")


def outcome_shares(mix: OutcomeMix, work_gpu_s: FloatArray) -> FloatArray:
    """(3, J) probability of COMPLETED, FAILED and CANCELLED, in the order of these numbers."""
    ln_work = np.log(np.maximum(work_gpu_s, 1.0) / REFERENCE_GPU_S)
    ln_odds = np.zeros((3, len(ln_work)))
    ln_odds[FAILED] = mix.failed_ln_odds + mix.failed_slope * ln_work
    ln_odds[CANCELLED] = mix.cancelled_ln_odds + mix.cancelled_slope * ln_work
    odds = np.exp(np.clip(ln_odds - ln_odds.max(axis=0), -LARGEST_LN_ODDS, 0.0))
    shares: FloatArray = odds / odds.sum(axis=0)
    return shares


def draw_outcomes(mix: OutcomeMix, work_gpu_s: FloatArray, rng: np.random.Generator) -> IntArray:
    """(J,) COMPLETED, FAILED or CANCELLED of sim.traits."""
    shares = outcome_shares(mix, work_gpu_s)
    which = rng.random(len(work_gpu_s))
    failed = (which >= shares[COMPLETED]) & (which < shares[COMPLETED] + shares[FAILED])
    cancelled = which >= shares[COMPLETED] + shares[FAILED]
    result: IntArray = np.where(failed, FAILED, np.where(cancelled, CANCELLED, COMPLETED))
    return result.astype(np.int64)
