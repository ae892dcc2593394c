"""Submission times of generated jobs: a Poisson process whose rate has days, weeks and bursts."""

import numpy as np

from sim.arrays import FloatArray
from sim.traces.clumps import clump_sizes, spread_clumps
from sim.traces.day_noise import held_noise
from sim.traces.spec import DAYS_A_WEEK, HOURS_A_DAY, WorkloadSpec

HOUR_S = 3600.0
WEEK_H = HOURS_A_DAY * DAYS_A_WEEK


def draw_arrivals(
    spec: WorkloadSpec, count: int, mean_per_h: float, rng: np.random.Generator
) -> FloatArray:
    """(count,) ascending whole seconds from the start of the first hour.

    With `spec.clumps` the process below starts clumps of jobs instead of single ones.
    """
    if spec.clumps is None:
        return np.floor(_poisson(spec, count, mean_per_h, rng))
    sizes = clump_sizes(spec.clumps, count, rng)
    start_s = _poisson(spec, len(sizes), mean_per_h * (1.0 - spec.clumps.prob), rng)
    return np.floor(spread_clumps(spec.clumps, start_s, sizes, rng))


def _poisson(
    spec: WorkloadSpec, count: int, mean_per_h: float, rng: np.random.Generator
) -> FloatArray:
    """(count,) ascending seconds.

    The hourly rate is mean x hour-of-day x weekday x gamma noise of hours (x that of days);
    arrivals are Poisson within the hour. The first hour is a random one of the week.
    """
    hours = np.asarray(spec.hour_factors, dtype=np.float64)
    days = np.asarray(spec.weekday_factors, dtype=np.float64)
    week = np.outer(days / days.mean(), hours / hours.mean()).ravel()  # (168,)
    week *= mean_per_h
    first_hour = int(rng.integers(WEEK_H))
    r, persistence = spec.dispersion_r, spec.noise_persistence
    level = float(rng.gamma(r, 1.0 / r))
    day_level = _first_day(spec, rng)
    found: list[FloatArray] = []
    have, start_h = 0, 0
    while have < count:
        noise, level = held_noise(r, persistence, WEEK_H, level, rng)
        day, day_level = _days(spec, day_level, rng)
        rate = np.roll(week, -first_hour) * noise * day
        hour = np.repeat(np.arange(WEEK_H), rng.poisson(rate))
        found.append(np.sort((start_h + hour + rng.random(len(hour))) * HOUR_S))
        have += len(hour)
        start_h += WEEK_H
    submit_s: FloatArray = np.concatenate([*found, np.empty(0)])[:count]
    return submit_s


def _first_day(spec: WorkloadSpec, rng: np.random.Generator) -> float:
    if spec.day_noise is None:
        return 1.0
    return float(rng.gamma(spec.day_noise.dispersion_r, 1.0 / spec.day_noise.dispersion_r))


def _days(spec: WorkloadSpec, level: float, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """(168,) factor of each hour's day, days counted from the first hour; and the last one."""
    noise = spec.day_noise
    if noise is None:
        return np.ones(WEEK_H), level
    days, last = held_noise(noise.dispersion_r, noise.persistence, DAYS_A_WEEK, level, rng)
    return np.repeat(days, HOURS_A_DAY), last
