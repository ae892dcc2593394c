"""The generator from a cluster's published summary figures alone, where its jobs are not public."""

from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError
from sim.traces.fit_parts import OutcomeShares, fit_outcomes
from sim.traces.processes import DurationMixture, choose, draw_durations
from sim.traces.spec import WorkloadSpec

SAMPLE = 200_000  # jobs drawn to match outcomes
STEPS = 60  # of bisection
STEEPEST = 3.0  # of ln duration over ln gang


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a cluster's table says of its GPU jobs."""

    jobs: int
    hours: float  # that the table covers
    mean_gang: float
    largest_gang: int
    single_frac: float  # share of jobs with one GPU; the tables give only the median, 1
    median_s: float
    mean_s: float
    work_gpu_s: float  # GPU-seconds of all jobs
    longest_s: float
    outcomes: OutcomeShares


def spec_of_summary(summary: Summary, like: WorkloadSpec, rng: np.random.Generator) -> WorkloadSpec:
    """Parameters that meet the summary; bursts, days and recurrence are those of `like`.

    Gangs are powers of two: the share of one GPU as given, the others' geometric with the ratio
    that gives the mean. ln durations are normal about a + b ln(gang): a gives the median, b the
    GPU-time, sigma the mean duration, solved in turn.

    Raises:
        TraceError: if no gangs of powers of two have the mean.
    """
    sizes: IntArray = 2 ** np.arange(int(np.log2(summary.largest_gang)) + 1)
    probs = _gang_probs(summary, sizes)
    ln_size = np.log(sizes)
    slope, sigma = _slope_and_sigma(summary, sizes, probs)
    centre = np.log(summary.median_s) - slope * float(probs @ ln_size)
    centre += np.log(summary.median_s) - _median_ln(probs, centre + slope * ln_size, sigma)
    durations = tuple(
        DurationMixture(
            up_to_gang=int(size), weights=(1.0,), mu=(float(mu),), sigma=(round(sigma, 3),)
        )
        for size, mu in zip(sizes, np.round(centre + slope * ln_size, 3), strict=True)
    )
    gangs = sizes[choose(probs, SAMPLE, rng)]
    seconds = np.clip(draw_durations(durations, gangs, rng), 1.0, summary.longest_s)
    return replace(
        like,
        jobs_per_h=summary.jobs / summary.hours,
        gang_sizes=tuple(sizes.tolist()),
        gang_probs=tuple(probs.tolist()),
        durations=durations,
        longest_s=summary.longest_s,
        outcomes=fit_outcomes(gangs * seconds, summary.outcomes),
    )


def _gang_probs(summary: Summary, sizes: IntArray) -> FloatArray:
    """Shares of the sizes with the wanted mean."""
    several = (summary.mean_gang - summary.single_frac) / (1.0 - summary.single_frac)
    rank = np.arange(len(sizes) - 1, dtype=np.float64)

    def shares(ratio: float) -> FloatArray:
        weights = np.power(ratio, rank)
        return weights / float(weights.sum())

    if not shares(0.0) @ sizes[1:] <= several <= sizes[-1]:
        raise TraceError(f"no gangs up to {summary.largest_gang} have the mean {summary.mean_gang}")
    low, high = 0.0, 100.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if shares(middle) @ sizes[1:] < several else (low, middle)
    rest = (1.0 - summary.single_frac) * shares(low)
    return np.concatenate([[summary.single_frac], rest])


def _slope_and_sigma(summary: Summary, sizes: IntArray, probs: FloatArray) -> tuple[float, float]:
    """The slope that gives the GPU-time, and the sigma that gives the mean, of the other."""
    wanted = summary.work_gpu_s / summary.jobs / summary.mean_s  # GPU-time over duration, means
    low, high = -STEEPEST, STEEPEST
    for _ in range(STEPS):
        slope = (low + high) / 2
        powers = sizes**slope
        found = float(probs @ (sizes * powers)) / float(probs @ powers)
        low, high = (slope, high) if found < wanted else (low, slope)
    tilt = np.log(sizes) * slope
    sigma = 0.0
    for _ in range(STEPS):  # mean over median of the mixture of log-normals
        of_sizes = np.log(probs @ np.exp(tilt)) - _median_ln(probs, tilt, sigma)
        ratio = np.log(summary.mean_s / summary.median_s)
        sigma = float(np.sqrt(max(2.0 * (ratio - of_sizes), 0.01)))
    return slope, sigma


def _median_ln(probs: FloatArray, mu: FloatArray, sigma: float) -> float:
    """Median of a mixture of normals with means `mu` (S,) and one sigma."""
    from scipy import special  # heavy: only fits need it

    low, high = float(mu.min()) - 1.0, float(mu.max()) + 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = float(probs @ special.ndtr((middle - mu) / max(sigma, 1e-9)))
        low, high = (middle, high) if below < 0.5 else (low, middle)  # noqa: PLR2004  (the median)
    return low
