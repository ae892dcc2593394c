"""How alike two traces are: two-sample distances, each beside what two halves of one differ by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, Rows
from sim.errors import TraceError
from sim.jobs import JobTable
from sim.times import DAY_S, HOUR_S
from sim.traces.trace import Trace

LEAST_JOBS = 40  # two halves of less say nothing about a distribution


@dataclass(frozen=True)
class JobSample(Rows):
    """J jobs sorted by submission."""

    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,)
    duration_s: FloatArray  # (J,)

    @classmethod
    def of(cls, jobs: Trace | JobTable, name: str, purpose: str = "a comparison") -> Self:
        """The columns of a trace or a job table; `name` and `purpose` are for messages.

        Raises:
            TraceError: if there are too few jobs, or all in one second.
        """
        if (count := len(jobs.submit_s)) < LEAST_JOBS:
            raise TraceError(
                f"{name} has {count} job{'' if count == 1 else 's'}; {purpose} needs {LEAST_JOBS} "
                f"or more: use a longer trace, or more of it (part, window, exclude_vcs)"
            )
        span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
        if not span_s > 0:
            raise TraceError(f"{name}: all jobs arrive in one second; use a longer stretch")
        return cls(jobs.submit_s, jobs.num_gpus, jobs.duration_s)

    def halves(self) -> tuple["JobSample", "JobSample"]:
        """The jobs of the first and of the second half of the time span.

        Where one half of the time holds nearly all jobs, the halves have equally many jobs.
        """
        middle_s = (self.submit_s[0] + self.submit_s[-1]) / 2
        early = int(np.searchsorted(self.submit_s, middle_s))
        if min(early, len(self) - early) < len(self) // 10:
            early = len(self) // 2
        rows = np.arange(len(self))
        return self.take(rows < early), self.take(rows >= early)


HOURS_A_WEEK = 168
SIZE_CLASSES = {"1 GPU": (1, 1), "2-4 GPUs": (2, 4), "5-8 GPUs": (5, 8), "9+ GPUs": (9, 1 << 60)}
FEATURE_GAP = "gap between jobs (s)"
HOURLY = "jobs in an hour"
GANG = "gang size, by jobs"
GANG_BY_WORK = "gang size, by GPU-time"
DURATION = "duration (s)"
ALIKE_LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # jobs
COUNT_LAGS_H = (*range(1, 25), 36, 48, 72, 96, 120, 144, 168)
ALIKE_LN = 0.18  # durations within 20 % of each other


@dataclass(frozen=True)
class Sample:
    """Values with weights, and how they look on a logarithmic scale."""

    values: FloatArray  # (n,)
    weights: FloatArray  # (n,)
    offset: float  # distances are of ln(max(value, 1) + offset)

    def ln(self) -> FloatArray:
        """(n,) values on the logarithmic scale; below 1 counts as 1 where the offset is 0."""
        lifted = self.values if self.offset else np.maximum(self.values, 1.0)
        result: FloatArray = np.log(lifted + self.offset)
        return result

    def median(self) -> float:
        """The value below which half of the weight lies."""
        return float(np.quantile(self.values, 0.5, weights=self.weights, method="inverted_cdf"))


def duration_of(size_class: str) -> str:
    """Name of the durations of one size class."""
    return f"duration, {size_class} (s)"


def samples(jobs: JobSample) -> dict[str, Sample]:
    """Feature -> sample; a size class without a job is left out."""
    size = jobs.num_gpus.astype(np.float64)
    found = {
        FEATURE_GAP: _plain(np.diff(jobs.submit_s)),
        HOURLY: _plain(hourly_counts(jobs), offset=1.0),
        GANG: _plain(size),
        GANG_BY_WORK: Sample(size, size * np.maximum(jobs.duration_s, 1.0), 0.0),
        DURATION: _plain(jobs.duration_s),
    }
    for name, (low, high) in SIZE_CLASSES.items():
        rows = (jobs.num_gpus >= low) & (jobs.num_gpus <= high)
        if rows.any():
            found[duration_of(name)] = _plain(jobs.duration_s[rows])
    return found


def hourly_counts(jobs: JobSample) -> FloatArray:
    """(H,) jobs submitted in each hour from the first job on."""
    hour = ((jobs.submit_s - jobs.submit_s[0]) // HOUR_S).astype(np.int64)
    return np.bincount(hour).astype(np.float64)


def week_shares(jobs: JobSample) -> FloatArray:
    """(168,) share of the jobs by hour of the week, from the trace's second 0 on."""
    hour = (jobs.submit_s // HOUR_S).astype(np.int64) % HOURS_A_WEEK
    return np.bincount(hour, minlength=HOURS_A_WEEK) / len(jobs)


def same_second_frac(jobs: JobSample) -> float:
    """Share of the jobs that arrive in the second of the job before."""
    return float(np.mean(np.diff(jobs.submit_s) == 0))


def alike_shares(
    jobs: JobSample, lags: tuple[int, ...] = ALIKE_LAGS, of: BoolArray | None = None
) -> FloatArray:
    """(L,) share of jobs with the gang of the job `lag` before and a duration within 20 % of its.

    It shows jobs that are submitted again, in a trace that names neither users nor groups. NaN
    where the trace is shorter than the lag. `of` (J,): only jobs count that follow one of these.
    """
    ln_s = np.log(np.maximum(jobs.duration_s, 1.0))
    shares = np.full(len(lags), np.nan)
    for place, lag in enumerate(lags):
        if lag < len(jobs):
            alike = jobs.num_gpus[lag:] == jobs.num_gpus[:-lag]
            alike &= np.abs(ln_s[lag:] - ln_s[:-lag]) < ALIKE_LN
            shares[place] = (alike if of is None else alike[of[:-lag]]).mean()
    return shares


def count_correlations(jobs: JobSample, lags_h: tuple[int, ...] = COUNT_LAGS_H) -> FloatArray:
    """(L,) autocorrelation of ln(1 + jobs in an hour); NaN where the trace is too short.

    A lag needs twice its length of trace. A trace of constant counts has none (NaN).
    """
    counts = np.log1p(hourly_counts(jobs))
    centred = counts - counts.mean()
    spread = float(centred @ centred) / len(centred)
    result = np.full(len(lags_h), np.nan)
    for place, lag in enumerate(lags_h):
        if spread > 0 and 2 * lag <= len(counts):
            result[place] = float(np.mean(centred[lag:] * centred[:-lag])) / spread
    return result


def _plain(values: FloatArray, offset: float = 0.0) -> Sample:
    return Sample(values, np.ones(len(values)), offset)


HOUR_OF_DAY = "hour of the day"
WEEKDAY = "day of the week"
SAME_SECOND = "jobs in the second of the one before"
ALIKE = "jobs like the one 1 to 1000 before"
COUNTS = "autocorrelation of hourly jobs"
KS, TV, MEAN_GAP, GAP = "KS", "total variation", "mean |difference|", "|difference|"
LEAST_DAYS = {HOUR_OF_DAY: 1.0, WEEKDAY: 7.0}  # of the first trace, for its profiles to mean much
LEAST_IN_CLASS = 20  # jobs of a size class on either side


@dataclass(frozen=True)
class Distance:
    """How far one feature of two traces is apart.

    `KS` is the largest difference of the distribution functions, `total variation` half the sum of
    the differences of shares. `ln_shift` is the Wasserstein-1 distance of natural logarithms: 0.1
    means that values differ by about 10 %. NaN: not defined, or too few jobs.
    """

    feature: str
    measure: str
    distance: float
    floor: float  # the same between two halves of the first trace
    ln_shift: float
    ln_shift_floor: float
    first: float  # weighted median, share or mean of the curve
    second: float

    @property
    def over_floor(self) -> float:
        """Distance over floor; up to 1 the traces differ no more than the first from itself.

        Infinite where its halves are alike and the second is not; NaN where all are, or no floor.
        """
        if self.floor == 0 and self.distance > 0:
            return float("inf")
        return self.distance / self.floor if self.floor > 0 else float("nan")


@dataclass(frozen=True)
class _Gap:
    """One feature between two samples."""

    measure: str
    distance: float
    ln_shift: float
    first: float
    second: float


def likeness(first: JobSample, others: Sequence[JobSample]) -> tuple[Distance, ...]:
    """Distances of `first`, usually measured, to one or more other draws of one source, as means.

    The floor is the distance between the jobs of the first and of the second half of `first`'s
    time span: it holds the drift of the source as well as chance. Profiles of hours and weekdays
    are compared at the turn of the week (in whole hours) at which they fit best, because a
    generated trace begins at any hour.
    """
    days = float(first.submit_s[-1] - first.submit_s[0]) / DAY_S
    halves = first.halves()
    floor = _gaps(halves[0], halves[1])
    draws = [_gaps(first, other) for other in others]
    found = []
    for feature in draws[0]:
        if days < LEAST_DAYS.get(feature, 0.0):
            continue
        seen = [draw[feature] for draw in draws if feature in draw]
        at_best = floor.get(feature)
        found.append(
            Distance(
                feature=feature,
                measure=seen[0].measure,
                distance=_mean(seen, "distance"),
                floor=at_best.distance if at_best else float("nan"),
                ln_shift=_mean(seen, "ln_shift"),
                ln_shift_floor=at_best.ln_shift if at_best else float("nan"),
                first=seen[0].first,
                second=_mean(seen, "second"),
            )
        )
    return tuple(found)


def weighted_ks(first: Sample, second: Sample) -> float:
    """Largest difference of two weighted distribution functions (Kolmogorov-Smirnov).

    Taken on the logarithmic scale of the samples, where 0 s and 1 s may count as the same.
    """
    grid = np.unique(np.concatenate([first.ln(), second.ln()]))
    return float(np.max(np.abs(_distribution(first, grid) - _distribution(second, grid))))


def ln_wasserstein(first: Sample, second: Sample) -> float:
    """Wasserstein-1 distance of the natural logarithms."""
    from scipy import stats  # heavy: only comparisons need it

    return float(stats.wasserstein_distance(first.ln(), second.ln(), first.weights, second.weights))


def best_turn(first: FloatArray, second: FloatArray) -> int:
    """Hours by which to roll the second week (168,) so that hours and days fit best."""
    costs = [sum(_profile_gaps(first, np.roll(second, turn))) for turn in range(HOURS_A_WEEK)]
    return int(np.argmin(costs))


def _gaps(first: JobSample, second: JobSample) -> dict[str, _Gap]:
    ours, theirs = same_second_frac(first), same_second_frac(second)
    return {
        **_sample_gaps(first, second),
        **_week_gaps(week_shares(first), week_shares(second)),
        SAME_SECOND: _Gap(GAP, abs(ours - theirs), float("nan"), ours, theirs),
        ALIKE: _curve_gap(alike_shares(first), alike_shares(second)),
        COUNTS: _curve_gap(count_correlations(first), count_correlations(second)),
    }


def _sample_gaps(first: JobSample, second: JobSample) -> dict[str, _Gap]:
    ours, theirs = samples(first), samples(second)
    found = {}
    for name in ours:
        if name not in theirs:
            continue
        pair = ours[name], theirs[name]
        if min(len(each.values) for each in pair) < LEAST_IN_CLASS:
            continue
        shift = ln_wasserstein(*pair)
        found[name] = _Gap(KS, weighted_ks(*pair), shift, pair[0].median(), pair[1].median())
    return found


def _week_gaps(first: FloatArray, second: FloatArray) -> dict[str, _Gap]:
    hours, days = _profile_gaps(first, np.roll(second, best_turn(first, second)))
    nan = float("nan")
    return {HOUR_OF_DAY: _Gap(TV, hours, nan, nan, nan), WEEKDAY: _Gap(TV, days, nan, nan, nan)}


def _profile_gaps(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Total variation of the hours of the day and of the days of the week."""
    change = (first - second).reshape(7, 24)
    by_hour, by_day = change.sum(axis=0), change.sum(axis=1)
    return float(np.abs(by_hour).sum() / 2), float(np.abs(by_day).sum() / 2)


def _curve_gap(first: FloatArray, second: FloatArray) -> _Gap:
    known = ~(np.isnan(first) | np.isnan(second))
    if not known.any():
        return _Gap(MEAN_GAP, *(float("nan"),) * 4)
    ours, theirs = first[known], second[known]
    change = float(np.abs(ours - theirs).mean())
    return _Gap(MEAN_GAP, change, float("nan"), float(ours.mean()), float(theirs.mean()))


def _distribution(sample: Sample, grid: FloatArray) -> FloatArray:
    """(G,) weight at or below each of `grid`, of 1."""
    values = sample.ln()
    order = np.argsort(values, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(sample.weights[order])])
    place = np.searchsorted(values[order], grid, side="right")
    shares: FloatArray = reached[place] / reached[-1]
    return shares


def _mean(gaps: Sequence[_Gap], name: str) -> float:
    return float(np.mean([getattr(gap, name) for gap in gaps]))
