"""What happened in a run, in order: the one record that metrics, figures and tests read."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import overload

from sim.arrays import FloatArray, IntArray


class Kind(IntEnum):
    """Kinds of events; docs/reference/semantics.md says in which order they come at one instant."""

    FINISH = 0
    ARRIVAL = 1
    PREEMPT = 2
    FORWARD = 3
    START = 4
    FAIL = 5  # an attempt failed: the job queues again
    EVICT = 6  # its server went away: the job queues again
    EXPIRE = 7  # its lease ended: the job queues again
    WITHDRAW = 8  # its user gave up, or a parent ended badly: the job leaves for good
    SERVER_DOWN = 9  # job is -1; gpus are the server's
    SERVER_UP = 10
    READY = 11  # the last parent finished after the job had arrived: it queues


class GpuLists(Sequence[IntArray]):
    """One list of GPUs an event, stored one after the other."""

    def __init__(self, first: IntArray, ids: IntArray) -> None:
        """List i is ids[first[i]:first[i + 1]]."""
        self.first = first  # (E + 1,)
        self.ids = ids

    def __len__(self) -> int:
        """Number of lists E."""
        return len(self.first) - 1

    @overload
    def __getitem__(self, at: int) -> IntArray: ...

    @overload
    def __getitem__(self, at: slice) -> "list[IntArray]": ...

    def __getitem__(self, at: int | slice) -> "IntArray | list[IntArray]":
        """GPUs of one event, or of several."""
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        return self.ids[self.first[at] : self.first[at + 1]]


@dataclass(frozen=True)
class EventLog:
    """E events in order of occurrence."""

    time_s: FloatArray  # (E,)
    kind: IntArray  # (E,) Kind
    job: IntArray  # (E,) row of the job table; -1 where the event is a server's
    partition: IntArray  # (E,) partition that holds the job after the event; a server's own
    gpus: Sequence[IntArray]  # (E,) GPUs taken (START), given back (when a job that held some
    # stops), changed (SERVER_*), or none
