"""Fits the generator to any trace: the parameters whose traces look like it."""

from typing import Any

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.times import HOUR_S
from sim.traces.fit_parts import OutcomeShares, Owners, fit_outcomes, fit_recurrence
from sim.traces.likeness import JobSample
from sim.traces.processes import Clumps, DayNoise, DurationMixture, clump_sizes, spread_clumps
from sim.traces.spec import DAYS_A_WEEK, HOURS_A_DAY, WorkloadSpec

LEAST_DAYS_FOR_HOURS = 4
PRIOR_DAYS = 0.5  # of an even rate, so that no hour of a short trace has none
LEAST_DAYS_FOR_NOISE = 3
LEAST_DAYS_FOR_WEEKDAYS = 14
HALF_A_DAY_H = range(8, 17)  # lags at which hourly noise has faded and half the pairs share a day
NEXT_DAY_H = range(22, 27)
LEAST_DAY_VARIANCE = 0.02  # of the days' factor; below it a trace has no busy days of its own
LARGEST_PERSISTENCE = 0.95
SMALLEST_VARIANCE = 1e-3  # of the hours' factor: a Poisson process, nearly


def fit_arrivals(submit_s: FloatArray, first_hour: float, excess_variance: float) -> dict[str, Any]:
    """Fields of a `WorkloadSpec`: a Poisson process with gamma noise of hours and days.

    Of single jobs, or of leaders where batches have been taken out.

    With N the hourly counts and m their expectation from the profiles, the covariance at lag L
    over the product of means, c(L), is (1 + vA p^L)(1 + vB) - 1 within a day, where vA and vB are
    the variances of the two noises and p the persistence of the hours'.

    Args:
        submit_s: (J,) ascending, over more than an hour.
        first_hour: hours from Monday 0:00 to the first submission.
        excess_variance: variance over mean of the counts at a constant rate: 1 if single jobs
            arrive, more if clumps do.
    """
    offset_s = (first_hour % 1.0) * HOUR_S
    hour = ((submit_s - submit_s[0] + offset_s) // HOUR_S).astype(np.int64)
    counts = np.bincount(hour).astype(np.float64)
    clock = (int(first_hour) + np.arange(len(counts))) % (HOURS_A_DAY * DAYS_A_WEEK)
    hours, days = _profiles(counts, clock)
    expected = counts.mean() * hours[clock % HOURS_A_DAY] * days[clock // HOURS_A_DAY]
    day_variance, day_persistence = _day_noise(counts, expected)
    total = max(_variance(counts, expected, excess_variance), SMALLEST_VARIANCE)
    hour_variance = max((1 + total) / (1 + day_variance) - 1, SMALLEST_VARIANCE)
    even = hour_variance == SMALLEST_VARIANCE  # nothing to persist
    next_hour = 0.0 if even else (1 + _covariance(counts, expected, 1)) / (1 + day_variance) - 1
    return dict(
        hour_factors=tuple(hours.tolist()),
        weekday_factors=tuple(days.tolist()),
        dispersion_r=1.0 / hour_variance,
        noise_persistence=float(np.clip(next_hour / hour_variance, 0.0, LARGEST_PERSISTENCE)),
        day_noise=DayNoise(dispersion_r=1.0 / day_variance, persistence=day_persistence)
        if day_variance > 0
        else None,
    )


def _profiles(counts: FloatArray, clock: IntArray) -> tuple[FloatArray, FloatArray]:
    """Relative rates (24,) and (7,), each fitted given the other; 1 where the trace is short."""
    hours, days = np.ones(HOURS_A_DAY), np.ones(DAYS_A_WEEK)
    hour, day = clock % HOURS_A_DAY, clock // HOURS_A_DAY
    for _ in range(5):
        if len(counts) >= LEAST_DAYS_FOR_HOURS * HOURS_A_DAY:
            hours = _relative(counts, days[day], hour, HOURS_A_DAY)
        if len(counts) >= LEAST_DAYS_FOR_WEEKDAYS * HOURS_A_DAY:
            days = _relative(counts, hours[hour], day, DAYS_A_WEEK)
    return hours, days


def _relative(counts: FloatArray, given: FloatArray, group: IntArray, size: int) -> FloatArray:
    """(size,) counts over what `given` expects, by group, of mean 1; see PRIOR_DAYS."""
    even = PRIOR_DAYS * float(counts.mean())  # jobs an hour
    seen = np.bincount(group, counts, size) + even
    found = seen / (np.bincount(group, given, size) + PRIOR_DAYS)
    relative: FloatArray = found / found.mean()
    return relative


def _day_noise(counts: FloatArray, expected: FloatArray) -> tuple[float, float]:
    """Variance and persistence of the days' factor; zeros where there is none."""
    if len(counts) < LEAST_DAYS_FOR_NOISE * HOURS_A_DAY:
        return 0.0, 0.0
    half = float(np.mean([_covariance(counts, expected, lag) for lag in HALF_A_DAY_H]))
    next_day = float(np.mean([_covariance(counts, expected, lag) for lag in NEXT_DAY_H]))
    variance = 2 * half - next_day  # half of the pairs share a day, half are of two days
    if variance < LEAST_DAY_VARIANCE:
        return 0.0, 0.0
    return variance, float(np.clip(next_day / variance, 0.0, LARGEST_PERSISTENCE))


def _variance(counts: FloatArray, expected: FloatArray, excess_variance: float) -> float:
    """Variance of the noise, without that of the arrivals."""
    own = (counts - expected) ** 2 - excess_variance * expected
    return float(np.sum(own) / np.sum(expected**2))


def _covariance(counts: FloatArray, expected: FloatArray, lag: int) -> float:
    """Covariance of the noise `lag` >= 1 hours apart."""
    excess = counts - expected
    scale = float(np.sum(expected[lag:] * expected[:-lag]))
    return float(np.sum(excess[lag:] * excess[:-lag])) / max(scale, 1e-12)


CLASS_ENDS = (1, 4, 8, 32)  # gangs of a class share a mixture; the last class has no end
EVERY_GANG = 1_000_000
LEAST_IN_CLASS = 60  # smaller classes join their neighbour
LEAST_IN_PART = 25  # jobs for each log-normal of a mixture
MOST_POINTS = 20_000  # evenly spaced order statistics stand for a larger class
ROUNDS = 300
NARROWEST = 0.03  # sigma of a part; a spike of equal durations would go to 0
SETTLED = 1e-7  # change of the mean log-likelihood of one job that ends the rounds
LN_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


def fit_durations(
    num_gpus: IntArray, duration_s: FloatArray, parts: int
) -> tuple[DurationMixture, ...]:
    """One mixture a class of gang sizes (1, 2-4, 5-8, 9-32, more); small classes are joined.

    Durations below 1 s count as 1 s; `parts` are the log-normals of a class with jobs enough.
    """
    found = []
    low = 0
    for end in (*CLASS_ENDS, EVERY_GANG):
        rows = (num_gpus > low) & (num_gpus <= end)
        above = int(np.sum(num_gpus > end))
        if rows.sum() < LEAST_IN_CLASS and above >= LEAST_IN_CLASS:
            continue  # joins the class above
        if above < LEAST_IN_CLASS:
            rows, end = num_gpus > low, EVERY_GANG
        ln_s = np.log(np.maximum(duration_s[rows], 1.0))
        found.append(_mixture(ln_s, end, parts))
        low = end
        if end == EVERY_GANG:
            break
    return tuple(found)


def fit_normals(values: FloatArray, parts: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, means and sigmas (K,) of a mixture of normals, by ascending mean."""
    points = np.sort(values)
    if len(points) > MOST_POINTS:
        place = (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS * len(points)
        points = points[place.astype(np.int64)]
    mean = np.quantile(points, (np.arange(parts) + 0.5) / parts)
    sigma = np.full(parts, max(float(points.std()), NARROWEST))
    weight = np.full(parts, 1.0 / parts)
    last = -np.inf
    for _ in range(ROUNDS):
        share, level = _shares(points, weight, mean, sigma)
        total = np.maximum(share.sum(axis=1), 1e-9)
        weight = total / total.sum()
        mean = share @ points / total
        spread = (share * (points - mean[:, None]) ** 2).sum(axis=1) / total
        sigma = np.maximum(np.sqrt(spread), NARROWEST)
        if level - last < SETTLED:
            break
        last = level
    order = np.argsort(mean)
    return weight[order], mean[order], sigma[order]


def _shares(
    points: FloatArray, weight: FloatArray, mean: FloatArray, sigma: FloatArray
) -> tuple[FloatArray, float]:
    """(K, N) probability of each part for each point, and the mean log-likelihood."""
    ln = np.log(weight) - np.log(sigma) - LN_ROOT_2PI
    ln = ln[:, None] - 0.5 * ((points - mean[:, None]) / sigma[:, None]) ** 2
    top = ln.max(axis=0)
    whole = np.exp(ln - top)
    sums = whole.sum(axis=0)
    return whole / sums, float(np.mean(top + np.log(sums)))


def _mixture(ln_s: FloatArray, end: int, parts: int) -> DurationMixture:
    kept = min(parts, max(len(ln_s) // LEAST_IN_PART, 1))
    weight, mean, sigma = fit_normals(ln_s, kept)
    rounded = tuple(np.round(weight, 4).tolist())
    return DurationMixture(
        up_to_gang=end,
        weights=rounded,
        mu=tuple(np.round(mean, 3).tolist()),
        sigma=tuple(np.round(sigma, 3).tolist()),
    )


PROBS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MEAN_GAPS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
WORTH = 0.01  # by how much clumps must bring the distributions of gaps closer
MOST_JOBS = 20_000


def fit_clumps(submit_s: FloatArray, rng: np.random.Generator) -> tuple[Clumps | None, float]:
    """The clumps, and the share of jobs that then arrive in their predecessor's second.

    Each candidate fills the trace's own hours, so that the bursts of hours play no part; compared
    are gaps above 0 (Kolmogorov-Smirnov). `submit_s` (J,) ascends and is without batches.
    """
    submit_s = submit_s[:MOST_JOBS]
    hour = ((submit_s - submit_s[0]) // HOUR_S).astype(np.int64)
    gaps_s = np.diff(submit_s)
    found: dict[Clumps, tuple[float, float]] = {}
    for prob in PROBS:
        for mean_gap_s in MEAN_GAPS_S if prob else MEAN_GAPS_S[:1]:
            clumps = Clumps(prob=prob, mean_gap_s=mean_gap_s)
            theirs = np.diff(np.floor(_filled(clumps, hour, rng)))
            found[clumps] = _distance(gaps_s, theirs), float(np.mean(theirs == 0))
    best = min(found, key=lambda each: found[each][0])
    none = Clumps(prob=0.0, mean_gap_s=MEAN_GAPS_S[0])
    if found[none][0] - found[best][0] < WORTH:
        return None, found[none][1]
    return best, found[best][1]


def _filled(clumps: Clumps, hour: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Times of as many jobs; clumps start in the hours (J,) of jobs drawn at random."""
    sizes = clump_sizes(clumps, len(hour), rng)
    start = rng.choice(hour, len(sizes)) + rng.random(len(sizes))
    return spread_clumps(clumps, np.sort(start) * HOUR_S, sizes, rng)


def _distance(first_s: FloatArray, second_s: FloatArray) -> float:
    """Largest difference of the distribution functions of the gaps above 0."""
    first, second = np.sort(first_s[first_s > 0]), np.sort(second_s[second_s > 0])
    grid = np.concatenate([first, second])
    ours = np.searchsorted(first, grid, side="right") / max(len(first), 1)
    theirs = np.searchsorted(second, grid, side="right") / max(len(second), 1)
    return float(np.abs(ours - theirs).max())


LEAST_JOB_SHARE = 0.002
LEAST_WORK_SHARE = 0.01


def fit_gangs(num_gpus: IntArray, duration_s: FloatArray) -> tuple[IntArray, FloatArray]:
    """Sizes and shares of the jobs; a rare size counts for the nearest common one.

    A size is common if it has 0.2 % of the jobs or 1 % of the GPU-time.
    """
    sizes, place = np.unique(num_gpus, return_inverse=True)
    jobs = np.bincount(place) / len(num_gpus)
    work = np.bincount(place, num_gpus * np.maximum(duration_s, 1.0))
    common = (jobs >= LEAST_JOB_SHARE) | (work / work.sum() >= LEAST_WORK_SHARE)
    kept = sizes[common]
    gap = np.abs(np.log(sizes)[:, None] - np.log(kept)[None, :])
    nearest: IntArray = gap.argmin(axis=1)
    shares = np.bincount(nearest, weights=jobs, minlength=len(kept)).astype(np.float64)
    return kept.astype(np.int64), shares


NORMAL_MEDIAN = 0.6745  # median of |N(0, 1)|
LARGEST_REPEAT_SIGMA = 1.0


def fit_spec(
    jobs: JobSample,  # of the trace
    *,
    first_hour: float,  # hours from Monday 0:00 to the first submission, in the zone of the users
    duration_parts: int,  # log-normals in a mixture
    owners: Owners,  # as the trace or the user says
    outcomes: OutcomeShares | None,  # final states; None leaves them out
    rng: np.random.Generator,  # of the fit of recurrence
) -> WorkloadSpec:
    """Parameters of the generator from a trace."""
    singles = jobs.take(~_batched(jobs))
    clumps, same_second = fit_clumps(singles.submit_s, rng)
    batched = float(_batched(jobs).mean())
    repeat_prob = max((batched - same_second) / (1.0 - same_second), 0.0)
    excess_variance = 1.0 if clumps is None else clumps.excess_variance
    sizes, probs = fit_gangs(jobs.num_gpus, jobs.duration_s)
    work_gpu_s = jobs.num_gpus.astype(np.float64) * np.maximum(jobs.duration_s, 1.0)
    return WorkloadSpec(
        jobs_per_h=float(len(jobs) / (jobs.submit_s[-1] - jobs.submit_s[0]) * HOUR_S),
        **fit_arrivals(singles.submit_s, first_hour, excess_variance),
        repeat_prob=repeat_prob,
        repeat_sigma=_repeat_sigma(jobs),
        gang_sizes=sizes.tolist(),
        gang_probs=probs.tolist(),
        durations=fit_durations(jobs.num_gpus, jobs.duration_s, duration_parts),
        shortest_s=max(float(jobs.duration_s.min()), 1.0),
        longest_s=float(jobs.duration_s.max()),
        vcs=owners.vcs,
        users_per_vc=owners.users_per_vc,
        zipf_exponent=owners.zipf_exponent,
        clumps=clumps,
        recurrence=fit_recurrence(singles, rng),
        outcomes=None if outcomes is None else fit_outcomes(work_gpu_s, outcomes),
    )


def _batched(jobs: JobSample) -> BoolArray:
    """(J,) True for a job in the second of the one before it."""
    mask: BoolArray = np.concatenate([[False], np.diff(jobs.submit_s) == 0])
    return mask


def _repeat_sigma(jobs: JobSample) -> float:
    """Spread of durations in one second and gang, robust against jobs that are no repeats."""
    same = (np.diff(jobs.submit_s) == 0) & (np.diff(jobs.num_gpus) == 0)
    if not same.any():
        return 0.0
    change = np.abs(np.diff(np.log(np.maximum(jobs.duration_s, 1.0))))[same]
    return min(float(np.median(change)) / NORMAL_MEDIAN, LARGEST_REPEAT_SIGMA)
