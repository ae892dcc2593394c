"""Time series of a run as step functions and in bins; intervals over windows and seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import CANCELLED, COMPLETED
from sim.metrics.event_effects import (
    GpuChanges,
    down_changes,
    gpu_changes,
    system_change,
    wait_change,
)
from sim.run import Kind, Run


@dataclass(frozen=True)
class Steps:
    """`value[i]` holds on [time_s[i], time_s[i + 1]), the last one for ever; 0 before the first."""

    time_s: FloatArray  # (n,) strictly ascending
    value: FloatArray  # (n,)

    def at(self, time_s: FloatArray) -> FloatArray:
        """Values at the times (m,)."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        padded = np.append(self.value, 0.0)  # row -1, before the first step, reads the 0
        return padded[row]

    def integral(self, time_s: FloatArray) -> FloatArray:
        """Integral from the first step to each of the times (m,), none before the first step."""
        if not len(self.time_s):
            return np.zeros(len(time_s))
        areas = self.value[:-1] * np.diff(self.time_s)
        before = np.concatenate([[0.0], np.cumsum(areas)])
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        inside = before[row] + self.value[row] * (time_s - self.time_s[row])
        return np.where(row >= 0, inside, 0.0)

    def mean(self, start_s: float, end_s: float) -> float:
        """Time average over [start_s, end_s]; 0 where that has no length."""
        if end_s <= start_s:
            return 0.0
        low, high = self.integral(np.array([start_s, end_s]))
        return float((high - low) / (end_s - start_s))

    def scaled(self, factor: float) -> "Steps":
        """The same steps with every value multiplied by `factor`."""
        return Steps(self.time_s, self.value * factor)


def combined(one: Steps, two: Steps, rule: Callable[[FloatArray, FloatArray], FloatArray]) -> Steps:
    """Steps of `rule(values of one, values of two)`, on the times of both."""
    time_s = np.unique(np.concatenate([one.time_s, two.time_s]))
    return Steps(time_s, rule(one.at(time_s), two.at(time_s)))


def steps_of_changes(time_s: FloatArray, change: IntArray) -> Steps:
    """Steps that start at 0 and move by `change[i]` (n,) at `time_s[i]` (n,), ascending.

    Changes at one instant make one step: what holds for no time is not shown.
    """
    value = np.cumsum(change).astype(np.float64)
    last_at_instant = np.append(time_s[1:] != time_s[:-1], True)[: len(time_s)]
    return Steps(time_s[last_at_instant], value[last_at_instant])


def span_s(run: Run) -> tuple[float, float]:
    """First submission and last event: the last finish, unless some jobs never finished."""
    return float(run.jobs.submit_s[0]), float(run.log.time_s[-1])


def utilisation_over_time(run: Run) -> Steps:
    """Share of the cluster's GPUs, down ones included, that have at least one tenant."""
    return gpus_over_time(gpu_changes(run.log), tenants=1).scaled(1.0 / run.topology.num_gpus)


def gpus_over_time(changes: GpuChanges, tenants: int) -> Steps:
    """Number of GPUs that have at least `tenants` tenants."""
    return steps_of_changes(changes.time_s, changes.gpus_with(tenants))


def available_over_time(run: Run) -> Steps:
    """Number of GPUs whose server is up; all of them from the first submission or event on."""
    changes = down_changes(run.log)
    first_s = min(span_s(run)[0], float(run.log.time_s[0]))
    change = np.concatenate([[run.topology.num_gpus], -changes.gpus_with(1)])
    return steps_of_changes(np.concatenate([[first_s], changes.time_s]), change)


def queue_over_time(run: Run) -> Steps:
    """Number of jobs that wait for GPUs: come, parents done, not left, holding none."""
    return _steps(run.log.time_s, wait_change(run))


def jobs_over_time(run: Run) -> Steps:
    """Number of jobs in the system, waiting or running."""
    return _steps(run.log.time_s, system_change(run.log))


def _steps(time_s: FloatArray, change: IntArray) -> Steps:
    counts = change != 0
    return steps_of_changes(time_s[counts], change[counts])


@dataclass(frozen=True)
class Timeline:
    """Averages over B bins of equal length."""

    time_s: FloatArray  # (B,) start of each bin, from the first submission
    gpu_util_frac: FloatArray  # (B,)
    queue_jobs: FloatArray  # (B,)


def timeline_of(run: Run, *, bins: int) -> Timeline:
    """Average the time series of a run over `bins` bins from first submission to last event."""
    start_s, end_s = span_s(run)
    edges_s = np.linspace(start_s, end_s, bins + 1)
    return Timeline(
        time_s=edges_s[:-1] - start_s,
        gpu_util_frac=_bin_means(utilisation_over_time(run), edges_s),
        queue_jobs=_bin_means(queue_over_time(run), edges_s),
    )


def _bin_means(steps: Steps, edges_s: FloatArray) -> FloatArray:
    width_s = np.diff(edges_s)
    if width_s[0] <= 0:
        return np.zeros(len(width_s))
    return np.diff(steps.integral(edges_s)) / width_s


@dataclass(frozen=True)
class Interval:
    """A centre with a two-sided confidence interval over `count` values."""

    centre: float
    low: float  # NaN where count is below 2: one value has no spread
    high: float
    count: int
    clusters: int | None = None  # of values that are alike; None: values are independent
    effective: float | None = None  # independent values that they are worth; NaN: cannot be told


def mean_interval(values: FloatArray | Sequence[float], confidence: float) -> Interval:
    """Mean of `values` (n,) with Student's t interval; assumes independent values.

    Raises:
        ValueError: no values, or `confidence` is not between 0 and 1.
    """
    from scipy import stats  # heavy: only reports need it

    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        raise ValueError("an interval needs at least one value; none was given")
    check_confidence(confidence)
    mean, count = float(np.mean(array)), len(array)
    if count == 1:
        return Interval(mean, float("nan"), float("nan"), count)
    half = float(stats.t.ppf(0.5 + confidence / 2, count - 1))
    half *= float(np.std(array, ddof=1)) / count**0.5
    return Interval(mean, mean - half, mean + half, count)


def ratio_interval(
    ours: FloatArray | Sequence[float], theirs: FloatArray | Sequence[float], confidence: float
) -> Interval:
    """Geometric mean of ours/theirs, paired by position (n,), with the t interval of the logs.

    Pairing removes what the windows have in common, which is most of their spread.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    logs = mean_interval(log_ratios(ours, theirs), confidence)
    low, high = float(np.exp(logs.low)), float(np.exp(logs.high))
    return Interval(float(np.exp(logs.centre)), low, high, logs.count)


def log_ratios(
    ours: FloatArray | Sequence[float], theirs: FloatArray | Sequence[float]
) -> FloatArray:
    """(n,) logs of ours/theirs, paired by position.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    top, bottom = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} values against {len(bottom)}; pairs need equally many")
    if not (np.all(top > 0) and np.all(bottom > 0)):
        raise ValueError("a ratio of logs needs values above 0; drop windows without finished jobs")
    logs: FloatArray = np.log(top) - np.log(bottom)
    return logs


def check_confidence(confidence: float) -> None:
    """Raise a ValueError unless `confidence` is a share between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1, like 0.95")


IN_SYSTEM = -1
"""Outcome of a job that never left."""


def withdrawn(run: Run) -> BoolArray:
    """(J,) jobs that left by a WITHDRAW."""
    found = np.zeros(len(run.jobs), dtype=np.bool_)
    found[run.log.job[run.log.kind == Kind.WITHDRAW]] = True
    return found


def finished(run: Run) -> BoolArray:
    """(J,) jobs that did all their work, whatever came of it."""
    return ~np.isnan(run.finish_s) & ~withdrawn(run)


def left_s(run: Run) -> FloatArray:
    """(J,) when the job left the system; NaN if it never did.

    The finish time of `Run`, which withdrawn jobs may have too; else the time of the WITHDRAW.
    """
    found = run.finish_s.copy()
    events = np.flatnonzero(run.log.kind == Kind.WITHDRAW)
    jobs = run.log.job[events]
    missing = np.isnan(found[jobs])
    found[jobs[missing]] = run.log.time_s[events[missing]]
    return found


def outcomes(run: Run) -> IntArray:
    """(J,) COMPLETED, FAILED, CANCELLED, or IN_SYSTEM.

    Where the run does not say, a job that finished has the outcome of its trace (COMPLETED where
    that has none), and a withdrawn one is CANCELLED.
    """
    if run.outcome is not None:
        return run.outcome
    fates = run.jobs.fates
    done = np.full(len(run.jobs), COMPLETED) if fates is None else fates.outcome
    return np.select([withdrawn(run), finished(run)], [CANCELLED, done], IN_SYSTEM)
