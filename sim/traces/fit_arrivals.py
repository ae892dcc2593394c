"""Arrival parameters of the generator that a trace's submissions suggest: method of moments."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.day_noise import DayNoise
from sim.traces.job_sample import HOUR_S
from sim.traces.spec import DAYS_A_WEEK, HOURS_A_DAY

LEAST_DAYS_FOR_HOURS = 4
PRIOR_DAYS = 0.5  # of an even rate, so that no hour of a short trace has none
LEAST_DAYS_FOR_NOISE = 3
LEAST_DAYS_FOR_WEEKDAYS = 14
HALF_A_DAY_H = range(8, 17)  # lags at which hourly noise has faded and half the pairs share a day
NEXT_DAY_H = range(22, 27)
LEAST_DAY_VARIANCE = 0.02  # of the days' factor; below it a trace has no busy days of its own
LARGEST_PERSISTENCE = 0.95
SMALLEST_VARIANCE = 1e-3  # of the hours' factor: a Poisson process, nearly


@dataclass(frozen=True)
class ArrivalFit:
    """Arrivals of single jobs, or of leaders where batches have been taken out."""

    jobs_per_h: float
    hour_factors: tuple[float, ...]  # (24,)
    weekday_factors: tuple[float, ...]  # (7,)
    dispersion_r: float
    noise_persistence: float
    day_noise: DayNoise | None


def fit_arrivals(submit_s: FloatArray, first_hour: float, excess_variance: float) -> ArrivalFit:
    """Rates, profiles and noise of a Poisson process with gamma noise of hours and days.

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
    return ArrivalFit(
        jobs_per_h=float(len(submit_s) / (submit_s[-1] - submit_s[0]) * HOUR_S),
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
