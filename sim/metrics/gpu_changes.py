"""The event log seen from the GPUs: who takes and gives back which GPU, and its holders after."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError
from sim.event_log import EventLog, Kind
from sim.metrics.event_effects import gpu_lists, hold_change


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
