"""A run over time, from its event log: who holds and waits after each event, steps, bins.

What each event does to a job and to the GPUs; which jobs left, when, and how.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, Integers
from sim.errors import SimulationError
from sim.jobs import CANCELLED, COMPLETED, JobTable
from sim.run import EventLog, GpuLists, Kind, Run

STOPS = (Kind.FINISH, Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE, Kind.WITHDRAW)
"""Kinds at which a job that runs gives its GPUs back."""

QUEUES_AGAIN = (Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE)


def gpu_lists(gpus: Sequence[IntArray]) -> GpuLists:
    """The GPUs of all events in two arrays."""
    if isinstance(gpus, GpuLists):
        return gpus
    sizes = np.fromiter(map(len, gpus), dtype=np.int64, count=len(gpus))
    ids = np.concatenate([*gpus, np.empty(0, dtype=np.int64)]).astype(np.int64)
    return GpuLists(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), ids)


def stops(log: EventLog) -> BoolArray:
    """(E,) events at which a job stops holding GPUs; not the withdrawal of one that waits."""
    found: BoolArray = np.isin(log.kind, STOPS)
    gone = np.flatnonzero(log.kind == Kind.WITHDRAW)
    if len(gone):
        found[gone] = np.diff(gpu_lists(log.gpus).first)[gone] > 0
    return found


def hold_change(log: EventLog) -> IntArray:
    """(E,) +1 where a job takes GPUs, -1 where it gives them back."""
    starts: IntArray = (log.kind == Kind.START).astype(np.int64)
    return starts - stops(log)


def last_start(run: Run) -> IntArray:
    """(J,) event of each job's last START; -1 if it never started."""
    starts = np.flatnonzero(run.log.kind == Kind.START)
    event = np.full(len(run.jobs), -1)
    event[run.log.job[starts]] = starts  # of equal indices the last assignment stays
    return event


def wait_change(run: Run) -> IntArray:
    """(E,) +1 where a job begins to wait for GPUs, -1 where it no longer does.

    A job of a DAG waits for GPUs only once its parents are done.
    """
    log = run.log
    change = np.zeros(len(log.kind), dtype=np.int64)
    change[np.isin(log.kind, (Kind.ARRIVAL, Kind.READY, *QUEUES_AGAIN))] = 1
    change[log.kind == Kind.START] = -1
    change[(log.kind == Kind.WITHDRAW) & ~stops(log)] = -1
    if run.jobs.precedence is not None:
        _mend_blocked(run, change)
    return change


def _mend_blocked(run: Run, change: IntArray) -> None:
    """Take back the waiting of jobs that arrive before their parents are done.

    Their ARRIVAL does not queue them, their READY does; a WITHDRAW before that takes nobody off
    the queue.
    """
    log = run.log
    blocked = blocked_at_arrival(run)
    arrivals = np.flatnonzero(log.kind == Kind.ARRIVAL)
    change[arrivals[blocked[log.job[arrivals]]]] = 0
    ready = np.zeros(len(run.jobs), dtype=np.bool_)
    ready[log.job[log.kind == Kind.READY]] = True
    gone = np.flatnonzero((log.kind == Kind.WITHDRAW) & (change < 0))
    change[gone[(blocked & ~ready)[log.job[gone]]]] = 0


def blocked_at_arrival(run: Run) -> BoolArray:
    """(J,) jobs with a parent that had not finished when they arrived."""
    precedence = run.jobs.precedence
    blocked = np.zeros(len(run.jobs), dtype=np.bool_)
    if precedence is None:
        return blocked
    log = run.log
    never = len(log.kind)
    arrived, done = np.full(len(run.jobs), never), np.full(len(run.jobs), never)
    for kind, event in ((Kind.ARRIVAL, arrived), (Kind.FINISH, done)):
        rows = np.flatnonzero(log.kind == kind)
        event[log.job[rows]] = rows
    child = precedence.children
    blocked[child[done[precedence.parents] > arrived[child]]] = True
    return blocked | forlorn(run.jobs)


def forlorn(jobs: JobTable) -> BoolArray:
    """(J,) jobs that no run plays: a parent, or a parent of one, does not complete."""
    lost = np.zeros(len(jobs), dtype=np.bool_)
    if jobs.precedence is None or jobs.fates is None:
        return lost
    links, bad, known = jobs.precedence, jobs.fates.outcome != COMPLETED, -1
    while known < (known := int(lost.sum())):
        lost[links.children[(bad | lost)[links.parents]]] = True
    return lost


@dataclass(frozen=True)
class GpuChanges:
    """C rows, one for each GPU of each event that changes the count of GPUs, in order.

    Long runs have tens of millions: what is stored is narrow, the rest is looked up when asked for.
    """

    log: EventLog
    event: Integers  # (C,) row of the log
    gpu: Integers  # (C,)
    change: Integers  # (C,) of the GPU's holders by the event
    after: Integers  # (C,) holders of the GPU after the event

    @property
    def time_s(self) -> FloatArray:
        """(C,)."""
        return self.log.time_s[self.event]

    @property
    def job(self) -> IntArray:
        """(C,) row of the job table; -1 where a server goes down or up."""
        return self.log.job[self.event]

    @property
    def before(self) -> Integers:
        """(C,) holders of the GPU before the event."""
        return self.after - self.change

    def of(self, chosen: BoolArray | IntArray) -> "GpuChanges":
        """The rows that are `chosen`: (C,), or their numbers."""
        columns = (self.event, self.gpu, self.change, self.after)
        return GpuChanges(self.log, *(column[chosen] for column in columns))

    def gpus_with(self, holders: int) -> Integers:
        """(C,) change of the number of GPUs that have at least `holders` holders."""
        now, earlier = self.after >= holders, self.before >= holders
        return now.astype(np.int8) - earlier.astype(np.int8)


def gpu_changes(log: EventLog) -> GpuChanges:
    """Spread the log over the GPUs it names; the holders are tenants.

    Raises:
        SimulationError: a GPU is given back that nobody holds.
    """
    return _changes(log, hold_change(log))


def down_changes(log: EventLog) -> GpuChanges:
    """GPUs that servers take away when they go down; a GPU can be down for two reasons at once.

    Raises:
        SimulationError: a server comes up that was not down.
    """
    return _changes(log, _down_change(log))


def unusable_changes(log: EventLog) -> GpuChanges:
    """Both together: a GPU is free while it has neither tenants nor a server that is down."""
    return _changes(log, hold_change(log) + _down_change(log))


def _down_change(log: EventLog) -> IntArray:
    down: IntArray = (log.kind == Kind.SERVER_DOWN).astype(np.int64)
    up: IntArray = (log.kind == Kind.SERVER_UP).astype(np.int64)
    change: IntArray = down - up
    return change


def _changes(log: EventLog, sign: IntArray) -> GpuChanges:
    lists = gpu_lists(log.gpus)
    sizes, events = np.diff(lists.first), np.flatnonzero(sign)
    event = np.repeat(events.astype(np.int32), sizes[events])
    gpu = lists.ids[np.repeat(sign != 0, sizes)].astype(np.int32)
    change = sign.astype(np.int8)[event]
    after = running_count(gpu, change)
    if len(after) and after.min() < 0:
        bad = int(np.argmin(after >= 0))
        row = int(event[bad])
        who = f"job row {log.job[row]}" if log.job[row] >= 0 else "a server"
        raise SimulationError(
            f"event log: {who} gives back GPU {gpu[bad]} at t={log.time_s[row]:.3f} s "
            f"(event {row}), which nobody holds; the log misses a START or a SERVER_DOWN"
        )
    return GpuChanges(log=log, event=event, gpu=gpu, change=change, after=after)


RADIX_BELOW = 2**16  # numpy sorts stably by radix up to 16 bits: many times as fast


def running_count(group: Integers, change: Integers) -> Integers:
    """(n,) running sum of `change` (n,) inside each group (n,), in the order given."""
    narrow = len(group) > 0 and group.max() < RADIX_BELOW
    keys = group.astype(np.uint16) if narrow else group
    order = np.argsort(keys, kind="stable")
    ordered, moved = keys[order], change[order]
    total = np.cumsum(moved, dtype=np.int32)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    base = (total - moved)[first]
    total -= np.repeat(base, np.diff(np.append(first, len(order))))
    count = np.empty_like(total)
    count[order] = total
    return count


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


def steps_of_changes(time_s: FloatArray, change: Integers) -> Steps:
    """Steps that start at 0 and move by `change[i]` (n,) at `time_s[i]` (n,), ascending.

    Changes at one instant make one step: what holds for no time is not shown.
    """
    value = np.cumsum(change, dtype=np.int64)
    last_at_instant = np.append(time_s[1:] != time_s[:-1], True)[: len(time_s)]
    return Steps(time_s[last_at_instant], value[last_at_instant].astype(np.float64))


def span_s(run: Run) -> tuple[float, float]:
    """First submission and last event: the last finish, unless some jobs never finished."""
    return float(run.jobs.submit_s[0]), float(run.log.time_s[-1])


def first_s(run: Run) -> float:
    """First submission or event, whichever is earlier."""
    return min(span_s(run)[0], float(run.log.time_s[0]))


def utilisation_over_time(run: Run) -> Steps:
    """Share of the cluster's GPUs, down ones included, that have at least one tenant."""
    return gpus_over_time(gpu_changes(run.log), tenants=1).scaled(1.0 / run.topology.num_gpus)


def gpus_over_time(changes: GpuChanges, tenants: int) -> Steps:
    """Number of GPUs that have at least `tenants` tenants."""
    return steps_of_changes(changes.time_s, changes.gpus_with(tenants))


def available_over_time(run: Run) -> Steps:
    """Number of GPUs whose server is up."""
    return gpus_without(run, down_changes(run.log))


def gpus_without(run: Run, changes: GpuChanges, gpus: int | None = None) -> Steps:
    """GPUs without a holder, of `gpus` (None: all); all of them from the beginning on."""
    total = run.topology.num_gpus if gpus is None else gpus
    change = np.concatenate([[total], -changes.gpus_with(1)])
    return steps_of_changes(np.concatenate([[first_s(run)], changes.time_s]), change)


def queue_over_time(run: Run) -> Steps:
    """Number of jobs that wait for GPUs: come, parents done, not left, holding none."""
    return _steps(run.log.time_s, wait_change(run))


def jobs_over_time(run: Run) -> Steps:
    """Number of jobs in the system, waiting or running."""
    arrives = (run.log.kind == Kind.ARRIVAL).astype(np.int64)
    leaves = np.isin(run.log.kind, (Kind.FINISH, Kind.WITHDRAW))
    return _steps(run.log.time_s, arrives - leaves)


def competing_over_time(run: Run) -> Steps:
    """Number of jobs that wait for GPUs or hold some."""
    return _steps(run.log.time_s, wait_change(run) + hold_change(run.log))


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
