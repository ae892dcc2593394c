"""The event log seen from the GPUs: who takes and gives back which GPU, and its tenants after."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError
from sim.event_log import EventLog, Kind

_TENANT_CHANGE = {Kind.START: 1, Kind.FINISH: -1, Kind.PREEMPT: -1}


@dataclass(frozen=True)
class GpuChanges:
    """C rows, one for each GPU of each START, FINISH and PREEMPT, in order of occurrence."""

    time_s: FloatArray  # (C,)
    job: IntArray  # (C,) row of the job table
    gpu: IntArray  # (C,)
    before: IntArray  # (C,) tenants of the GPU before the event
    after: IntArray  # (C,) tenants of the GPU after the event

    def gpus_with(self, tenants: int) -> IntArray:
        """(C,) change of the number of GPUs that have at least `tenants` tenants."""
        now, earlier = self.after >= tenants, self.before >= tenants
        return now.astype(np.int64) - earlier.astype(np.int64)


def gpu_changes(log: EventLog) -> GpuChanges:
    """Spread the log over the GPUs it names.

    Raises:
        SimulationError: a GPU is given back that nobody holds.
    """
    sign = np.zeros(len(log.kind), dtype=np.int64)
    for kind, change in _TENANT_CHANGE.items():
        sign[log.kind == kind] = change
    events = np.flatnonzero(sign)
    lists = [log.gpus[event] for event in events.tolist()]
    sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    row = np.repeat(events, sizes)
    gpu = np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)
    after = _running_count(gpu, sign[row])
    if len(after) and after.min() < 0:
        bad = int(np.argmin(after >= 0))
        raise SimulationError(
            f"event log: job row {log.job[row[bad]]} gives back GPU {gpu[bad]} at "
            f"t={log.time_s[row[bad]]:.3f} s, which no job holds; the log misses a START"
        )
    return GpuChanges(
        time_s=log.time_s[row], job=log.job[row], gpu=gpu, before=after - sign[row], after=after
    )


def _running_count(group: IntArray, change: IntArray) -> IntArray:
    """(n,) running sum of `change` (n,) inside each group (n,), in the order given."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(change[order])
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    base = (total - change[order])[first]
    count = np.empty_like(total)
    count[order] = total - np.repeat(base, np.diff(np.append(first, len(order))))
    return count
