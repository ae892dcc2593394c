"""What happened in a run, in order: the one record that metrics, figures and tests read."""

from dataclasses import dataclass
from enum import IntEnum

from sim.arrays import FloatArray, IntArray


class Kind(IntEnum):
    """Kinds of events. At one instant finishes come before arrivals, then decisions' effects."""

    FINISH = 0
    ARRIVAL = 1
    PREEMPT = 2
    FORWARD = 3
    START = 4


@dataclass(frozen=True)
class EventLog:
    """E events in order of occurrence."""

    time_s: FloatArray  # (E,)
    kind: IntArray  # (E,) Kind
    job: IntArray  # (E,) row of the job table
    partition: IntArray  # (E,) partition that holds the job after the event
    gpus: tuple[IntArray, ...]  # (E,) GPUs taken (START), given back (FINISH, PREEMPT), or none
