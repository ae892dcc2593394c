"""Generates traces with the burstiness, sizes and heavy tails of a measured cluster."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.traces.select import take
from sim.traces.spec import DAYS_A_WEEK, HOURS_A_DAY, WorkloadSpec
from sim.traces.trace import Trace

HOUR_S = 3600.0
WEEK_H = HOURS_A_DAY * DAYS_A_WEEK


def generate(spec: WorkloadSpec, num_jobs: int, rng: np.random.Generator, name: str) -> Trace:
    """`num_jobs` consecutive jobs that begin at a random hour of the week.

    Hourly rates are mean x hour-of-day x weekday x gamma noise; arrivals are Poisson within the
    hour. A job repeats its predecessor (same second, gang and owner, similar duration) with
    probability `repeat_prob`. Submission times are whole seconds from the start of the first hour.
    """
    repeat = rng.random(num_jobs) < spec.repeat_prob
    repeat[:1] = False
    leader: IntArray = np.cumsum(~repeat) - 1  # (J,) which of the L leaders each job is or repeats
    leaders = int(leader[-1]) + 1 if num_jobs else 0
    num_gpus = _gangs(spec, leaders, rng)
    vc, user = _owners(spec, leaders, rng)
    original = Trace(
        name=name,
        job_id=np.empty(leaders, dtype=np.object_),
        submit_s=_arrivals(spec, leaders, rng),
        num_gpus=num_gpus,
        duration_s=_durations(spec, num_gpus, rng),
        user=user,
        vc=vc,
    )
    jobs = take(original, leader)
    spread = np.where(repeat, np.exp(spec.repeat_sigma * rng.standard_normal(num_jobs)), 1.0)
    seconds = np.clip(np.rint(jobs.duration_s * spread), spec.shortest_s, spec.longest_s)
    return Trace(
        name=name,
        job_id=_texts([f"{name}-{row}" for row in range(num_jobs)]),
        submit_s=jobs.submit_s,
        num_gpus=jobs.num_gpus,
        duration_s=seconds,
        user=jobs.user,
        vc=jobs.vc,
    )


def _arrivals(spec: WorkloadSpec, count: int, rng: np.random.Generator) -> FloatArray:
    """(count,) ascending whole seconds; `count` leaders of the batches."""
    hours = np.asarray(spec.hour_factors, dtype=np.float64)
    days = np.asarray(spec.weekday_factors, dtype=np.float64)
    week = np.outer(days / days.mean(), hours / hours.mean()).ravel()  # (168,)
    week *= spec.jobs_per_h * (1.0 - spec.repeat_prob)
    first_hour = int(rng.integers(WEEK_H))
    level = _unit_gamma_start(spec, rng)
    found: list[FloatArray] = []
    have, start_h = 0, 0
    while have < count:
        noise, level = _noise(spec, level, rng)
        rate = np.roll(week, -first_hour) * noise
        hour = np.repeat(np.arange(WEEK_H), rng.poisson(rate))
        found.append(np.sort((start_h + hour + rng.random(len(hour))) * HOUR_S))
        have += len(hour)
        start_h += WEEK_H
    submit_s: FloatArray = np.floor(np.concatenate([*found, np.empty(0)])[:count])
    return submit_s


def _unit_gamma_start(spec: WorkloadSpec, rng: np.random.Generator) -> float:
    return float(rng.gamma(spec.dispersion_r, 1.0 / spec.dispersion_r))


def _noise(spec: WorkloadSpec, level: float, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """(168,) noise of mean 1, and its last value for the next week.

    Every hour is gamma(r, 1/r); it keeps the value of the hour before with probability
    `noise_persistence`, else draws a new one.
    """
    fresh = rng.gamma(spec.dispersion_r, 1.0 / spec.dispersion_r, WEEK_H)
    keeps: BoolArray = rng.random(WEEK_H) < spec.noise_persistence
    source = np.maximum.accumulate(np.where(keeps, -1, np.arange(WEEK_H)))
    noise = np.where(source < 0, level, fresh[source])
    return noise, float(noise[-1])


def _gangs(spec: WorkloadSpec, count: int, rng: np.random.Generator) -> IntArray:
    probs = np.asarray(spec.gang_probs, dtype=np.float64)
    sizes = np.asarray(spec.gang_sizes, dtype=np.int64)
    return sizes[_choose(probs, count, rng)]


def _durations(spec: WorkloadSpec, num_gpus: IntArray, rng: np.random.Generator) -> FloatArray:
    """(L,) seconds from each gang's mixture."""
    which = rng.random(len(num_gpus))
    normal = rng.standard_normal(len(num_gpus))
    reach = [mixture.up_to_gang for mixture in spec.durations]
    mixture_of = np.searchsorted(reach, num_gpus)
    seconds = np.empty(len(num_gpus))
    for index, mixture in enumerate(spec.durations):
        rows = mixture_of == index
        edges = np.cumsum(mixture.weights)[:-1] / np.sum(mixture.weights)
        part = np.searchsorted(edges, which[rows], side="right")
        mu, sigma = np.asarray(mixture.mu)[part], np.asarray(mixture.sigma)[part]
        with np.errstate(over="ignore"):  # clipped to longest_s by the caller
            seconds[rows] = np.exp(mu + sigma * normal[rows])
    return np.clip(seconds, spec.shortest_s, spec.longest_s)


def _owners(
    spec: WorkloadSpec, count: int, rng: np.random.Generator
) -> tuple[TextArray, TextArray]:
    """(L,) virtual clusters and their users, both with Zipf shares."""
    vc = _choose(_zipf(spec.vcs, spec.zipf_exponent), count, rng)
    user = _choose(_zipf(spec.users_per_vc, spec.zipf_exponent), count, rng)
    return (
        _texts([f"vc{v}" for v in vc]),
        _texts([f"vc{v}-u{u}" for v, u in zip(vc, user, strict=True)]),
    )


def _zipf(count: int, exponent: float) -> FloatArray:
    return np.arange(1.0, count + 1.0, dtype=np.float64) ** -float(exponent)


def _choose(weights: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    edges = np.cumsum(weights)[:-1] / weights.sum()
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def _texts(texts: list[str]) -> TextArray:
    column: TextArray = np.empty(len(texts), dtype=np.object_)
    column[:] = texts
    return column
