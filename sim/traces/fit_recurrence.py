"""How often jobs come back, from a trace that names neither users nor groups."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.traces.features import ALIKE_LAGS, ALIKE_LN
from sim.traces.job_sample import JobSample
from sim.traces.recurrence import Recurrence, draw_roots

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
    for gangs. The spread of the runs comes from how many of the alike are all but equal.

    Args:
        jobs: of the trace.
        rng: shuffles and simulates.

    Returns:
        None if nothing comes back.
    """
    lags = tuple(lag for lag in ALIKE_LAGS if 4 * lag <= len(jobs))
    sigma = _sigma(jobs)
    wanted = _wanted(jobs, lags, rng) / within(sigma, ALIKE_LN)
    if not float(np.nanmean(wanted)) >= LEAST_EXCESS:
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
        best = min((_with(best, best.again_prob, again) for again in AGAIN_PROBS), key=cost)
        best = min((_with(best, again, best.gang_again_prob) for again in AGAIN_PROBS), key=cost)
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
    ln_s = np.log(np.maximum(jobs.duration_s, 1.0))
    shares = []
    for lag in lags:
        alike = jobs.num_gpus[lag:] == jobs.num_gpus[:-lag]
        alike &= np.abs(ln_s[lag:] - ln_s[:-lag]) < ALIKE_LN
        shares.append(float(alike[of_class[:-lag]].mean()))
    return np.array(shares)


def _with(spec: Recurrence, again: float, gang_again: float) -> Recurrence:
    return Recurrence(
        again_prob=again,
        gang_again_prob=gang_again,
        memory_jobs=spec.memory_jobs,
        sigma=spec.sigma,
    )


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


def _share(root: IntArray, lag: int, mask: BoolArray) -> float:
    earlier = mask[:-lag]
    return float(np.mean((root[lag:] == root[:-lag])[earlier])) if earlier.any() else float("nan")
