"""Predictions of durations: by a rule (none, limit, truth, blurred), or from earlier runs.

A run counts from `known_s`, its finish had it not waited: an estimate made beforehand
cannot know the queue. One that finishes at the very instant of a submission does not count yet.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError, check_numbers
from sim.jobs import codes_of, never_ran
from sim.times import HOUR_S
from sim.traces.trace import Trace


class LimitEstimator:
    """Predicts each job's time limit, mostly far above what it then takes.

    A job without a limit is predicted as `unlimited_s`, and where that is None as the longest limit
    among the jobs at hand: nobody may count on it to be shorter.
    """

    assumed = "users' time limits, which end no job"
    information = "limit"

    def __init__(self, *, unlimited_s: float | None) -> None:
        """`unlimited_s`: seconds, above 0, predicted for jobs without a limit, or None."""
        check_numbers("estimator", "null, or above 0", TraceError, unlimited_s=unlimited_s)
        self._unlimited_s = unlimited_s

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) predicted seconds; TraceError: no job of the trace has a limit."""
        limit_s = np.full(len(trace), np.inf) if trace.limit_s is None else trace.limit_s
        given = np.isfinite(limit_s)
        if not given.any():
            raise TraceError(
                f"trace {trace.name}: no job has a time limit, so estimator=limit predicts "
                f"nothing; map the column (Timelimit of sacct, workload.columns.limit_s of a CSV), "
                f"or choose another estimator"
            )
        longest_s = limit_s[given].max()
        return np.where(given, limit_s, self._unlimited_s or longest_s)


class NoisyEstimator:
    """Predicts duration * exp(N(0, sigma)), independently for each job.

    A job of 0 seconds is predicted as 0 seconds.
    """

    assumed = "noisy predictions, sigma {sigma:g}"
    information = "predicted"

    def __init__(self, *, sigma: float) -> None:
        """`sigma`: standard deviation of the error in ln seconds, 0 or more."""
        check_numbers("estimator", "0 or more", TraceError, sigma=sigma)
        self._sigma = float(sigma)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds; the noise of job j does not depend on its duration."""
        return trace.duration_s * np.exp(self._sigma * rng.standard_normal(len(trace)))


class NoEstimator:
    """Predicts nothing."""

    assumed = "none predicted"
    information = "none"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) NaN for every job."""
        return np.full(len(trace), np.nan)


class OracleEstimator:
    """Knows every duration."""

    assumed = "the true ones"
    information = "oracle"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) the durations themselves, in seconds, as a copy."""
        return trace.duration_s.copy()


def checked_prior_s(prior_s: float) -> float:
    """`prior_s` as a float; TraceError: it is not a finite number above 0."""
    check_numbers("estimator", "above 0", TraceError, prior_s=prior_s)
    return float(prior_s)


SHORTEST_S = 1.0  # shorter runs count as this long where logarithms are taken


@dataclass(frozen=True)
class Past:
    """Finished runs with the same key, as of K jobs' submissions; NaN where there are none."""

    count: IntArray  # (K,)
    last_s: FloatArray  # (K,) the one that finished last
    mean_s: FloatArray  # (K,) geometric mean; runs below a second count as one
    median_s: FloatArray  # (K,)


@dataclass
class RunningMedian:
    """Median of numbers that come one by one: two heaps, the lower half negated."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Take one more number."""
        heapq.heappush(self.high, -heapq.heappushpop(self.low, -value))
        if len(self.high) > len(self.low):
            heapq.heappush(self.low, -heapq.heappop(self.high))

    @property
    def median(self) -> float:
        """Of all numbers taken; of two in the middle their mean."""
        if len(self.low) > len(self.high):
            return -self.low[0]
        return (self.high[0] - self.low[0]) / 2.0


@dataclass
class _Runs:
    """Finished runs of one key."""

    durations: RunningMedian = field(default_factory=RunningMedian)
    count: int = 0
    last_s: float = np.nan
    sum_ln: float = 0.0

    def add(self, duration_s: float) -> None:
        self.durations.add(duration_s)
        self.count += 1
        self.last_s = duration_s
        self.sum_ln += float(np.log(max(duration_s, SHORTEST_S)))


def known_s(trace: Trace, stretch: float = 1.0) -> FloatArray:
    """(J,) on the trace's clock, from when on one may learn from a job: its finish, unless said.

    Who was given up before it began ran for 0 s in the file, which says nothing of other runs: its
    time never comes. `stretch` is of submission times in the run: while one runs, which takes as
    long as ever, fewer jobs come.
    """
    if trace.known_s is not None:
        return trace.known_s
    finish_s = trace.submit_s + trace.duration_s / stretch
    return np.where(never_ran(trace.duration_s, trace.withdraw_s), np.inf, finish_s)


def past_of(trace: Trace, key: IntArray, rows: IntArray | None = None) -> Past:
    """Earlier finished runs of each job's key.

    Args:
        trace: J jobs.
        key: (J,) what a job is a run of; jobs below 0 are runs of nothing known.
        rows: (K,) jobs to answer for, ascending; None: all.
    """
    asked = np.arange(len(trace)) if rows is None else rows
    found = np.full((3, len(asked)), np.nan)
    count = np.zeros(len(asked), dtype=np.int64)
    duration_s, keys = trace.duration_s.tolist(), key.tolist()
    finish_s = known_s(trace)
    order = np.argsort(finish_s, kind="stable")
    # How many of `order` finish before each submission asked about.
    known = np.searchsorted(finish_s[order], trace.submit_s[asked], side="left").tolist()
    finished, taken = order.tolist(), 0
    runs: dict[int, _Runs] = {}
    for place, job in enumerate(asked.tolist()):
        while taken < known[place]:
            run = finished[taken]
            taken += 1
            if keys[run] >= 0:
                runs.setdefault(keys[run], _Runs()).add(duration_s[run])
        own = runs.get(keys[job])
        if own is not None:
            mean_s = np.exp(own.sum_ln / own.count)
            count[place] = own.count
            found[:, place] = own.last_s, mean_s, own.durations.median
    return Past(count=count, last_s=found[0], mean_s=found[1], median_s=found[2])


def everyone(trace: Trace) -> IntArray:
    """(J,) one key for all jobs."""
    return np.zeros(len(trace), dtype=np.int64)


def group_keys(trace: Trace) -> IntArray:
    """(J,) what each job is a run of: its group, or the finest that the trace knows instead.

    Without a group column that is user and gang, without users virtual cluster and gang, and the
    gang alone where neither is known.
    """
    if trace.group is not None and any(trace.group):
        return codes_of(trace.group)
    owner = codes_of(trace.user if any(trace.user) else trace.vc)
    joint = np.unique(np.stack([owner, trace.num_gpus]), axis=1, return_inverse=True)[1]
    return np.asarray(joint, dtype=np.int64).ravel()


def user_keys(trace: Trace) -> IntArray:
    """(J,) the user, or the virtual cluster where the trace has no users."""
    return codes_of(trace.user if any(trace.user) else trace.vc)


def first_known(columns: Sequence[FloatArray], otherwise_s: float) -> FloatArray:
    """(J,) of each job the first of `columns`, (J,) each, that is not NaN."""
    found = np.full(len(columns[0]), otherwise_s)
    for column in reversed(columns):
        found = np.where(np.isnan(column), found, column)
    return found


HOURS, DAYS = 24, 7
NAMES = (
    "gang", "group_last", "group_mean", "group_median", "group_count", "user_last", "user_median",
    "user_count", "vc_median", "gang_median", "median", "hour", "weekday",
)  # fmt: skip


def recurrence_features(trace: Trace, prior_s: float) -> FloatArray:
    """(J, F) columns NAMES.

    Seconds and gangs are natural logarithms, counts ln(1 + count). Statistics of a group without a
    finished run are those of its user; statistics of users, virtual clusters and gang sizes without
    one are those of all jobs; before any job has finished, `prior_s` above 0. Hours and days count
    from the trace's origin, whatever time of day that is: only their period matters.
    """
    group = past_of(trace, group_keys(trace))
    user = past_of(trace, user_keys(trace))
    vc = past_of(trace, codes_of(trace.vc)).median_s
    gang = past_of(trace, trace.num_gpus).median_s
    median = first_known([past_of(trace, everyone(trace)).median_s], prior_s)

    def owners(column: str) -> FloatArray:
        return first_known([getattr(user, column), median], prior_s)

    def groups(column: str) -> FloatArray:
        return first_known([getattr(group, column), owners(column)], prior_s)

    hour = np.floor(trace.submit_s / HOUR_S)
    return np.stack(
        [
            np.log(trace.num_gpus),
            *(_ln(groups(column)) for column in ("last_s", "mean_s", "median_s")),
            np.log1p(group.count),
            _ln(owners("last_s")),
            _ln(owners("median_s")),
            np.log1p(user.count),
            _ln(first_known([vc, median], prior_s)),
            _ln(first_known([gang, median], prior_s)),
            _ln(median),
            hour % HOURS,
            (hour // HOURS) % DAYS,
        ],
        axis=1,
    )


def _ln(seconds: FloatArray) -> FloatArray:
    logs: FloatArray = np.log(np.maximum(seconds, SHORTEST_S))
    return logs


class PastOfGroup:
    """Predicts what the subclass takes of the group's finished runs.

    Groups are what the trace says, or the finest that it knows instead (`group_keys`). A group
    without a finished run is predicted as its user's median, then as the median of all finished
    jobs, then as `prior_s`. Runs outside the window count too (`estimate_rows`).
    """

    information = "predicted"
    column: ClassVar[str]  # of `Past`

    def __init__(self, *, prior_s: float) -> None:
        """`prior_s`: seconds, above 0, predicted before any job has finished."""
        self._prior_s = checked_prior_s(prior_s)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds, from the jobs of `trace` alone."""
        return self.estimate_rows(trace, np.arange(len(trace)), rng)

    def estimate_rows(self, trace: Trace, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(K,) predicted seconds of the jobs at `rows`, from all finished jobs of `trace`."""
        del rng
        group = getattr(past_of(trace, group_keys(trace), rows), self.column)
        user = past_of(trace, user_keys(trace), rows).median_s
        all_s = past_of(trace, everyone(trace), rows).median_s
        return first_known([group, user, all_s], self._prior_s)


class GroupMedian(PastOfGroup):
    """Predicts the median duration of the same group's finished runs (see `PastOfGroup`)."""

    assumed = "predicted as the median of the group's finished runs"
    column = "median_s"


class LastOfGroup(PastOfGroup):
    """Predicts how long the same group's run took that finished last (see `PastOfGroup`)."""

    assumed = "predicted as the group's last finished run"
    column = "last_s"
