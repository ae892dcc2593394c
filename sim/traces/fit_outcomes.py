"""Odds of failure and cancellation that give known shares of the jobs and of the GPU-time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError
from sim.traces.outcome_mix import OutcomeMix, outcome_shares
from sim.traits import COMPLETED

OUTCOMES = 3
RARE = 0.002  # share of the jobs below which an outcome is left out
NEVER = 30.0  # ln odds against an outcome that does not occur
STEEPEST = 3.0  # slope of ln odds over ln GPU-time
CLOSE = 0.03  # largest error of a share that counts as fitted


@dataclass(frozen=True, kw_only=True)
class OutcomeShares:
    """Completed, failed, cancelled: shares of the jobs and of their GPU-time."""

    of_jobs: Sequence[float]
    of_work: Sequence[float]


def shares_in(outcome: IntArray, work_gpu_s: FloatArray) -> OutcomeShares | None:
    """The shares in a trace; None if all of its jobs end alike, or none completes."""
    jobs = np.bincount(outcome, minlength=OUTCOMES)
    if jobs[COMPLETED] in (0, len(outcome)):
        return None
    work = np.bincount(outcome, work_gpu_s, OUTCOMES)
    return OutcomeShares(of_jobs=jobs / jobs.sum(), of_work=work / work.sum())


def fit_outcomes(work_gpu_s: FloatArray, shares: OutcomeShares) -> OutcomeMix:
    """Solve for the parameters by least squares on the shares.

    An outcome below 0.2 % of the jobs gets odds of nearly 0.

    Args:
        work_gpu_s: (J,) GPU-seconds of each job.
        shares: wanted.

    Raises:
        TraceError: if the shares are no shares, or no odds give them.
    """
    from scipy import optimize  # heavy: only fits need it

    jobs, work = _checked("jobs", shares.of_jobs), _checked("GPU-time", shares.of_work)
    weight = work_gpu_s / work_gpu_s.sum()
    free = np.flatnonzero(jobs[1:] >= RARE)  # failed, cancelled

    def mix(values: FloatArray) -> OutcomeMix:
        pairs = np.array([[-NEVER, 0.0], [-NEVER, 0.0]])
        pairs[free] = values.reshape(-1, 2)
        (failed, failed_slope), (cancelled, cancelled_slope) = pairs.tolist()
        return OutcomeMix(
            failed_ln_odds=failed,
            failed_slope=failed_slope,
            cancelled_ln_odds=cancelled,
            cancelled_slope=cancelled_slope,
        )

    def gaps(values: FloatArray) -> FloatArray:
        found = outcome_shares(mix(values), work_gpu_s)
        return np.concatenate([found.mean(axis=1) - jobs, found @ weight - work])

    start = np.stack([np.log(jobs[1:][free] / jobs[COMPLETED]), np.zeros(len(free))], axis=1)
    bounds = np.tile([-NEVER, -STEEPEST], len(free)), np.tile([NEVER, STEEPEST], len(free))
    values = optimize.least_squares(gaps, start.ravel(), bounds=bounds).x
    worst = float(np.abs(gaps(values)).max())
    if worst > CLOSE:
        raise TraceError(
            f"no odds give the outcome shares {list(shares.of_jobs)} of the jobs and "
            f"{list(shares.of_work)} of the GPU-time (nearest: {worst:.2f} off); use others"
        )
    return mix(np.round(values, 4))


def _checked(what: str, shares: Sequence[float]) -> FloatArray:
    values = np.asarray(shares, dtype=np.float64)
    good = len(values) == OUTCOMES and (values >= 0).all() and abs(values.sum() - 1) <= CLOSE
    if not (good and values[COMPLETED] > 0 and values[1:].max() >= RARE):
        raise TraceError(
            f"outcome shares of {what} are {list(shares)}; needed: completed, failed, cancelled, "
            f"of sum 1, completed above 0 and another one too"
        )
    return values / float(values.sum())
