"""What a process that trains is given and what it answers: plain values, no torch."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from interference.measuring.device import Form
from sim.arrays import FloatArray


@dataclass(frozen=True)
class LoopTask:
    """One training loop."""

    profile: str  # "model/batch"
    make: str  # dotted path of the function that makes the model
    batch: int
    form: Form
    cores: tuple[int, ...]  # to be pinned to; empty: to none
    seed: int


@dataclass(frozen=True)
class Signals:
    """What the loops of one group share with the process that measures; none of it takes a lock.

    A lock would let a loop that was put aside while holding it stop all the others.
    """

    barrier: Barrier
    stop: Any  # c_bool: set when everything is measured
    steps: Any  # array of c_long, one a loop: steps done so far


@dataclass(frozen=True)
class Line:
    """Where a loop sits among the others, and its way to answer."""

    number: int
    pipe: "Connection[Any, Any]"


@dataclass(frozen=True)
class Began:
    """The loop passed the barrier."""

    at_s: float  # monotonic clock of the machine


@dataclass(frozen=True)
class Ran:
    """The loop was stopped; nothing failed."""

    stamps_s: FloatArray  # (steps + 1,) monotonic: when it began, then the end of each step
    cpu_s: FloatArray  # (steps + 1,) CPU time of the process at each stamp


@dataclass(frozen=True)
class Failed:
    """The loop could not go on."""

    out_of_memory: bool
    words: str
