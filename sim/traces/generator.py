"""Generates traces with the burstiness, sizes, heavy tails and repeats of a measured cluster."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray, objects
from sim.times import HOUR_S
from sim.traces.processes import (
    Recurrence,
    choose,
    clump_sizes,
    draw_durations,
    draw_outcomes,
    draw_roots,
    first_run_probs,
    held_noise,
    spread_clumps,
    zipf,
)
from sim.traces.spec import (
    DAYS_A_WEEK,
    HOURS_A_DAY,
    DemandMix,
    WorkflowShape,
    WorkloadSpec,
    draw_demands,
    draw_precedence,
    draw_workflows,
)
from sim.traces.trace import Trace, take

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
        jobs = rng.poisson(np.roll(week, -first_hour) * noise * day)
        ends = np.cumsum(jobs)
        last = 1 + int(np.searchsorted(ends, count - have))  # hours after it are not asked for
        hour = np.repeat(np.arange(len(jobs[:last])), jobs[:last])
        found.append(np.sort((start_h + hour + rng.random(len(hour))) * HOUR_S))
        skip(rng, int(ends[-1]) - len(hour))
        have += len(hour)
        start_h += WEEK_H
    submit_s: FloatArray = np.concatenate([*found, np.empty(0)])[:count]
    return submit_s


def skip(rng: np.random.Generator, count: int) -> None:
    """What `rng.random(count)` would draw is drawn by nobody; what comes after it stays."""
    bits = rng.bit_generator
    assert isinstance(bits, np.random.PCG64)  # each number of it takes one step
    before = bits.state
    bits.advance(count)
    after = bits.state
    for half in ("has_uint32", "uinteger"):  # of 64 bits, which `advance` forgets
        after[half] = before[half]
    bits.state = after


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


def generate(spec: WorkloadSpec, num_jobs: int, rng: np.random.Generator, name: str) -> Trace:
    """`num_jobs` consecutive jobs that begin at a random hour of the week.

    A job repeats its predecessor (same second, gang and owner,
    similar duration) with probability `repeat_prob`. With `spec.recurrence` jobs come back later
    too, and the group column names what a job is a run of. With `spec.workflows` the jobs are those
    of whole workflows, submitted together; the last one may be cut short.

    Equal streams give equal traces; parts of the spec that are None draw nothing.
    """
    if spec.workflows is not None:
        trace = _workflows(spec, spec.workflows, num_jobs, rng, name)
    else:
        trace = _jobs(spec, num_jobs, rng, name)
    if spec.outcomes is None:
        return trace
    work_gpu_s = trace.num_gpus * trace.duration_s
    return replace(trace, outcome=draw_outcomes(spec.outcomes, work_gpu_s, rng))


def _jobs(spec: WorkloadSpec, num_jobs: int, rng: np.random.Generator, name: str) -> Trace:
    repeat = rng.random(num_jobs) < spec.repeat_prob
    repeat[:1] = False
    leader: IntArray = np.cumsum(~repeat) - 1  # (J,) which of the L leaders each job is or repeats
    leaders = int(leader[-1]) + 1 if num_jobs else 0
    mean_per_h = spec.jobs_per_h * (1.0 - spec.repeat_prob)
    jobs = take(_leaders(spec, leaders, mean_per_h, rng, name), leader)
    spread = np.where(repeat, np.exp(spec.repeat_sigma * rng.standard_normal(num_jobs)), 1.0)
    return replace(
        jobs,
        job_id=objects([f"{name}-{row}" for row in range(num_jobs)]),
        duration_s=np.clip(np.rint(jobs.duration_s * spread), spec.shortest_s, spec.longest_s),
    )


def _workflows(
    spec: WorkloadSpec, shape: WorkflowShape, num_jobs: int, rng: np.random.Generator, name: str
) -> Trace:
    """Jobs of workflows: owner and second of the workflow, a duration around its own."""
    workflow = draw_workflows(shape, num_jobs, rng)
    count = int(workflow[-1]) + 1 if num_jobs else 0
    jobs = take(_leaders(spec, count, spec.jobs_per_h / shape.mean_jobs, rng, name), workflow)
    num_gpus = _gangs(spec, num_jobs, rng)
    spread = np.exp(shape.duration_sigma * rng.standard_normal(num_jobs))
    seconds = jobs.duration_s * spread * num_gpus**shape.gang_slope
    jobs = replace(
        jobs,
        job_id=objects([f"{name}-{row}" for row in range(num_jobs)]),
        num_gpus=num_gpus,
        duration_s=np.clip(np.rint(seconds), spec.shortest_s, spec.longest_s),
        precedence=draw_precedence(shape, workflow, rng),
    )
    return jobs if spec.demands is None else _demanding(spec.demands, jobs, rng)


def _leaders(
    spec: WorkloadSpec, count: int, mean_per_h: float, rng: np.random.Generator, name: str
) -> Trace:
    """The jobs that repeat no predecessor of the same second; their ids are not filled in."""
    num_gpus = _gangs(spec, count, rng)
    vc, user = _owners(spec, count, rng)
    submit_s = draw_arrivals(spec, count, mean_per_h, rng)
    raw_s = draw_durations(spec.durations, num_gpus, rng)
    first_runs = Trace(
        name=name,
        job_id=np.empty(count, dtype=np.object_),
        submit_s=submit_s,
        num_gpus=num_gpus,
        duration_s=np.clip(raw_s, spec.shortest_s, spec.longest_s),
        user=user,
        vc=vc,
    )
    if spec.demands is not None and spec.workflows is None:
        first_runs = _demanding(spec.demands, first_runs, rng)
    return first_runs if spec.recurrence is None else _runs(spec.recurrence, first_runs, rng)


def _demanding(mix: DemandMix, jobs: Trace, rng: np.random.Generator) -> Trace:
    """The jobs with what each of their workers asks for."""
    return replace(jobs, **draw_demands(mix, jobs.num_gpus, rng))


def _runs(recurrence: Recurrence, first_runs: Trace, rng: np.random.Generator) -> Trace:
    """Some of the jobs as new runs of earlier ones, at their own time."""
    count = len(first_runs)
    root = draw_roots(recurrence, first_runs.num_gpus, rng)
    spread = np.exp(recurrence.sigma * rng.standard_normal(count))
    jobs = take(first_runs, root)
    again = root != np.arange(count)
    return replace(
        jobs,
        submit_s=first_runs.submit_s,
        duration_s=jobs.duration_s * np.where(again, spread, 1.0),
        group=objects([f"{user}-g{each}" for user, each in zip(jobs.user, root, strict=True)]),
    )


def _gangs(spec: WorkloadSpec, count: int, rng: np.random.Generator) -> IntArray:
    probs = np.asarray(spec.gang_probs, dtype=np.float64)
    if spec.recurrence is not None:
        probs = first_run_probs(spec.recurrence, spec.gang_sizes, probs.tolist())
    return np.asarray(spec.gang_sizes, dtype=np.int64)[choose(probs, count, rng)]


def _owners(
    spec: WorkloadSpec, count: int, rng: np.random.Generator
) -> tuple[TextArray, TextArray]:
    """(L,) virtual clusters and their users, both with Zipf shares."""
    vc = choose(zipf(spec.vcs, spec.zipf_exponent), count, rng)
    user = choose(zipf(spec.users_per_vc, spec.zipf_exponent), count, rng)
    vcs, users = range(spec.vcs), range(spec.users_per_vc)
    names = objects([f"vc{v}-u{u}" for v in vcs for u in users])
    return objects([f"vc{v}" for v in vcs])[vc], names[vc * spec.users_per_vc + user]
