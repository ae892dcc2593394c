"""Gathers the kernel's log chunks into one `EventLog`."""

import numpy as np

from sim.arrays import IntArray
from sim.event_log import EventLog, Kind
from sim.kernel.state import NUM_LOGGED, NUM_LOGGED_GPUS, State


class Recorder:
    """Copies what the kernel logged, before its buffers can run full."""

    def __init__(self, state: State) -> None:
        """Record the log of `state`."""
        self._state = state
        self._rows: list[tuple[np.ndarray, ...]] = []
        self._gpus: list[IntArray] = []

    def flush_if_half_full(self) -> None:
        """Call between kernel calls: each writes less than half a buffer."""
        count, state = self._state.counts, self._state
        if 2 * count[NUM_LOGGED] > len(state.log_s) or 2 * count[NUM_LOGGED_GPUS] > len(
            state.log_gpus
        ):
            self.flush()

    def flush(self) -> None:
        """Move the kernel's log here."""
        state = self._state
        n, g = int(state.counts[NUM_LOGGED]), int(state.counts[NUM_LOGGED_GPUS])
        columns = (state.log_s, state.log_kind, state.log_job, state.log_partition)
        self._rows.append(tuple(column[:n].copy() for column in columns))
        self._gpus.append(state.log_gpus[:g].copy())
        state.counts[NUM_LOGGED] = 0
        state.counts[NUM_LOGGED_GPUS] = 0

    def log(self) -> EventLog:
        """The whole log so far."""
        self.flush()
        time_s, kind, job, partition = (
            np.concatenate([rows[i] for rows in self._rows]) for i in range(4)
        )
        gpus = np.concatenate(self._gpus)
        return EventLog(
            time_s=time_s,
            kind=kind,
            job=job,
            partition=partition,
            gpus=_gpus_of_events(kind, job, self._state.num_gpus, gpus),
        )


def _gpus_of_events(
    kind: IntArray, job: IntArray, num_gpus: IntArray, started: IntArray
) -> tuple[IntArray, ...]:
    """GPUs of each event: a START's own, and for FINISH and PREEMPT those of the last START."""
    holds: dict[int, IntArray] = {}
    none = np.empty(0, dtype=np.int64)
    found: list[IntArray] = []
    first = 0
    for what, who in zip(kind.tolist(), job.tolist(), strict=True):
        if what == Kind.START:
            holds[who] = started[first : first + num_gpus[who]]
            first += int(num_gpus[who])
            found.append(holds[who])
        elif what in (Kind.FINISH, Kind.PREEMPT):
            found.append(holds.pop(who))
        else:
            found.append(none)
    return tuple(found)
