"""The event log seen from the GPUs: what each event does to a job, and who holds what after."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import SimulationError
from sim.run import EventLog, GpuLists, Kind, Run

STOPS = (Kind.FINISH, Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE, Kind.WITHDRAW)
"""Kinds at which a job that runs gives its GPUs back."""

QUEUES_AGAIN = (Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE)


def gpu_lists(log: EventLog) -> GpuLists:
    """The GPUs of all events in two arrays."""
    if isinstance(log.gpus, GpuLists):
        return log.gpus
    sizes = np.fromiter(map(len, log.gpus), dtype=np.int64, count=len(log.gpus))
    ids = np.concatenate([*log.gpus, np.empty(0, dtype=np.int64)]).astype(np.int64)
    return GpuLists(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), ids)


def stops(log: EventLog) -> BoolArray:
    """(E,) events at which a job stops holding GPUs; not the withdrawal of one that waits."""
    found: BoolArray = np.isin(log.kind, STOPS)
    gone = np.flatnonzero(log.kind == Kind.WITHDRAW)
    if len(gone):
        found[gone] = np.diff(gpu_lists(log).first)[gone] > 0
    return found


def hold_change(log: EventLog) -> IntArray:
    """(E,) +1 where a job takes GPUs, -1 where it gives them back."""
    starts: IntArray = (log.kind == Kind.START).astype(np.int64)
    return starts - stops(log)


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


def system_change(log: EventLog) -> IntArray:
    """(E,) +1 where a job arrives, -1 where it leaves for good."""
    change: IntArray = (log.kind == Kind.ARRIVAL).astype(np.int64)
    return change - np.isin(log.kind, (Kind.FINISH, Kind.WITHDRAW))


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
    child = np.repeat(np.arange(len(run.jobs)), np.diff(precedence.first))
    blocked[child[done[precedence.parents] > arrived[child]]] = True
    return blocked | _doomed(run)


def _doomed(run: Run) -> BoolArray:
    """(J,) jobs with a parent that ended badly: they never queue."""
    precedence, fates = run.jobs.precedence, run.jobs.fates
    doomed = np.zeros(len(run.jobs), dtype=np.bool_)
    if precedence is not None and fates is not None:
        child = np.repeat(np.arange(len(run.jobs)), np.diff(precedence.first))
        doomed[child[fates.outcome[precedence.parents] != 0]] = True
    return doomed


@dataclass(frozen=True)
class GpuChanges:
    """C rows, one for each GPU of each event that changes the count of GPUs, in order."""

    time_s: FloatArray  # (C,)
    job: IntArray  # (C,) row of the job table; -1 where a server goes down or up
    gpu: IntArray  # (C,)
    before: IntArray  # (C,) holders of the GPU before the event
    after: IntArray  # (C,) holders of the GPU after the event

    def gpus_with(self, holders: int) -> IntArray:
        """(C,) change of the number of GPUs that have at least `holders` holders."""
        now, earlier = self.after >= holders, self.before >= holders
        return now.astype(np.int64) - earlier.astype(np.int64)


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
    lists = gpu_lists(log)
    row = np.repeat(np.arange(len(lists)), np.diff(lists.first))
    counts = sign[row] != 0
    row, gpu = row[counts], lists.ids[counts]
    after = running_count(gpu, sign[row])
    if len(after) and after.min() < 0:
        bad = int(np.argmin(after >= 0))
        event = int(row[bad])
        who = f"job row {log.job[event]}" if log.job[event] >= 0 else "a server"
        raise SimulationError(
            f"event log: {who} gives back GPU {gpu[bad]} at t={log.time_s[event]:.3f} s "
            f"(event {event}), which nobody holds; the log misses a START or a SERVER_DOWN"
        )
    return GpuChanges(
        time_s=log.time_s[row], job=log.job[row], gpu=gpu, before=after - sign[row], after=after
    )


def running_count(group: IntArray, change: IntArray) -> IntArray:
    """(n,) running sum of `change` (n,) inside each group (n,), in the order given."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(change[order])
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    base = (total - change[order])[first]
    count = np.empty_like(total)
    count[order] = total - np.repeat(base, np.diff(np.append(first, len(order))))
    return count
