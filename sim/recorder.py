"""Gathers the kernel's log chunks into one `EventLog`."""

import numpy as np

from sim.arrays import IntArray
from sim.event_log import EventLog, GpuLists
from sim.kernel.layout import RowArray, State


class Recorder:
    """Copies what the kernel logged, before its buffers can run full."""

    def __init__(self, state: State) -> None:
        """Record the log of `state`."""
        self._state = state
        self._rows: list[RowArray] = []
        self._gpus: list[IntArray] = []

    def fork(self, state: State) -> "Recorder":
        """A recorder with the same past that goes on with `state`."""
        twin = Recorder(state)
        twin._rows, twin._gpus = self._rows.copy(), self._gpus.copy()
        return twin

    def flush_if_half_full(self) -> None:
        """Call between kernel calls: each writes less than half a buffer."""
        state, world = self._state, self._state.world
        rows, gpus = int(world["num_logged"][0]), int(world["num_logged_gpus"][0])
        if 2 * rows > len(state.log) or 2 * gpus > len(state.log_gpus):
            self.flush()

    def flush(self) -> None:
        """Move the kernel's log here."""
        state, world = self._state, self._state.world
        self._rows.append(state.log[: int(world["num_logged"][0])].copy())
        self._gpus.append(state.log_gpus[: int(world["num_logged_gpus"][0])].copy())
        world["num_logged"] = 0
        world["num_logged_gpus"] = 0

    def log(self) -> EventLog:
        """The whole log so far."""
        self.flush()
        rows = np.concatenate(self._rows)
        first = np.concatenate([[0], np.cumsum(rows["gpus"])])
        return EventLog(
            time_s=rows["time_s"].copy(),
            kind=rows["kind"].copy(),
            job=rows["job"].copy(),
            partition=rows["partition"].copy(),
            gpus=GpuLists(first, np.concatenate(self._gpus)),
        )
