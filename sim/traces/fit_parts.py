"""Parts of the generator fitted to a trace: odds of endings, clusters and users, repetition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import TraceError
from sim.jit import kernel
from sim.jobs import COMPLETED, Identity
from sim.traces.likeness import ALIKE_LAGS, ALIKE_LN, JobSample, alike_shares
from sim.traces.processes import OutcomeMix, Recurrence, draw_roots, outcome_shares

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
    """Solve for the parameters by least squares on the shares; `work_gpu_s` (J,) is of each job.

    An outcome below 0.2 % of the jobs gets odds of nearly 0.

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


LARGEST_RANKS = 20  # the tail of rare owners would bend the slope


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Who submits; a trace often does not say."""

    vcs: int
    users_per_vc: int
    zipf_exponent: float


def fit_owners(identity: Identity | None) -> Owners:
    """Counts of owners, and the slope of ln share over ln rank of the largest.

    The slope is that of users, of virtual clusters where there are no users. A trace without
    owners has one of each.
    """
    if identity is None:
        return Owners(vcs=1, users_per_vc=1, zipf_exponent=0.0)
    vcs, users = _count(identity.vc), _count(identity.user)
    ranked = identity.user if users > 1 else identity.vc
    return Owners(
        vcs=max(vcs, 1),
        users_per_vc=max(round(users / max(vcs, 1)), 1),
        zipf_exponent=_slope(ranked),
    )


def _count(codes: IntArray) -> int:
    return len(np.unique(codes[codes >= 0]))


def _slope(codes: IntArray) -> float:
    counts = np.sort(np.bincount(codes[codes >= 0]))[::-1][:LARGEST_RANKS]
    counts = counts[counts > 0]
    if len(counts) < 2:  # noqa: PLR2004  (a line needs two points)
        return 0.0
    slope, _ = np.polyfit(np.log(np.arange(1, len(counts) + 1)), np.log(counts), 1)
    return max(-float(slope), 0.0)


AGAIN_PROBS = tuple(np.round(np.arange(0.0, 1.0, 0.05), 2).tolist())
MEMORIES = (3, 10, 30, 100, 300, 1000)
PENALTY = 0.003  # of large groups, which make traces of one spec unlike each other
SIGMAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MOST_JOBS = 12_000  # of a simulated stretch
LEAST_EXCESS = 0.005  # mean share above chance that is worth a parameter
LEAST_PAIRS = 200  # of gangs; a trace with fewer says nothing of theirs
CORE_LN = 0.03  # durations that are all but equal


def fit_recurrence(jobs: JobSample, rng: np.random.Generator) -> Recurrence | None:
    """The parameters whose simulated groups fall off with the lag as the alike jobs do.

    At each lag the share of jobs like the one before them, less what reshuffled jobs show, is
    matched to P(same group) x P(durations of two runs within 20 %), apart for jobs of one GPU and
    for gangs. The spread of the runs comes from how many of the alike are all but equal. None if
    nothing comes back.
    """
    lags = tuple(lag for lag in ALIKE_LAGS if 4 * lag <= len(jobs))
    sigma = _sigma(jobs)
    wanted = _wanted(jobs, lags, rng) / within(sigma, ALIKE_LN)
    if np.isnan(wanted).all() or float(np.nanmean(wanted)) < LEAST_EXCESS:
        return None
    classes = jobs.num_gpus[rng.integers(len(jobs), size=min(len(jobs), MOST_JOBS))]

    def cost(spec: Recurrence) -> float:
        error = np.nansum((_same_group(spec, classes, lags, rng) - wanted) ** 2)
        return float(error - PENALTY * np.log((1 - spec.again_prob) * (1 - spec.gang_again_prob)))

    both = [
        Recurrence(again_prob=again, gang_again_prob=again, memory_jobs=memory, sigma=sigma)
        for memory in MEMORIES
        for again in AGAIN_PROBS
    ]
    best = min(both, key=cost)
    for _ in range(2):
        best = min((replace(best, gang_again_prob=again) for again in AGAIN_PROBS), key=cost)
        best = min((replace(best, again_prob=again) for again in AGAIN_PROBS), key=cost)
    return best if best.again_prob + best.gang_again_prob > 0 else None


def within(sigma: float, reach: float) -> float:
    """P(two runs' ln durations differ by less than `reach`), each normal with `sigma`."""
    from scipy import special  # heavy: only fits need it

    return float(special.erf(reach / (2.0 * sigma)))


def _wanted(jobs: JobSample, lags: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """(2, L) excess of alike jobs over chance, of one GPU and of gangs; NaN: too few."""
    shuffled = jobs.take(rng.permutation(len(jobs)))
    rows = []
    for single in (True, False):
        ours, chance = (_alike(each, lags, single) for each in (jobs, shuffled))
        level = float(np.nanmean(chance)) if not np.isnan(chance).all() else 0.0
        rows.append(np.maximum(ours - level, 0.0) / max(1.0 - level, 1e-9))
    return np.array(rows)


def _alike(jobs: JobSample, lags: tuple[int, ...], single: bool) -> FloatArray:
    """(L,) share of jobs that are like the job `lag` before, where that one has a class."""
    of_class = (jobs.num_gpus == 1) == single
    if of_class.sum() < LEAST_PAIRS:
        return np.full(len(lags), np.nan)
    return alike_shares(jobs, lags, of_class)


def _sigma(jobs: JobSample) -> float:
    """The spread that explains how many jobs like their predecessor are all but equal to it."""
    ln_s = np.log(np.maximum(jobs.duration_s, 1.0))
    change = np.abs(np.diff(ln_s))[np.diff(jobs.num_gpus) == 0]
    near = np.maximum(np.sum(change < ALIKE_LN), 1)
    core = float(np.sum(change < CORE_LN) / near)
    return min(SIGMAS, key=lambda s: abs(within(s, CORE_LN) / within(s, ALIKE_LN) - core))


def _same_group(
    spec: Recurrence, classes: IntArray, lags: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """(2, L) share of jobs of the group of the one `lag` before, where that has one GPU or more."""
    first = 1.0 - np.where(classes == 1, spec.again_prob, spec.gang_again_prob)
    starts = rng.choice(classes, len(classes), p=first / first.sum())
    root = draw_roots(spec, starts, rng)
    single = starts[root] == 1
    return np.array([[_share(root, lag, mask) for lag in lags] for mask in (single, ~single)])


@kernel
def _share(root: IntArray, lag: int, mask: BoolArray) -> float:
    """Of the jobs `lag` behind one of `mask` (J,), those of its group; NaN: there are none."""
    pairs, same = 0, 0
    for row in range(lag, len(root)):
        if mask[row - lag]:
            pairs += 1
            same += root[row] == root[row - lag]
    return same / pairs if pairs else np.nan
