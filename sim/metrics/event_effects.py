"""What each kind of event does to a job, said once: does it hold GPUs, wait, or leave?"""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.event_log import EventLog, GpuLists, Kind
from sim.run import Run

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
