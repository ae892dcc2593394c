"""Runs whose whole loop is compiled: events and decisions without Python between them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from sim.arrays import IntArray
from sim.kernel.advance import FULL, PAUSE
from sim.kernel.layout import State
from sim.view import ViewMaker

Fault = tuple[int, int, int]  # verdict of `sim.kernel.apply`, job, GPU or partition
EVERY = 1000  # decisions between two looks at what Python wants: progress, Ctrl-C


class Loop(Protocol):
    """One run, at its beginning or on its way."""

    @property
    def decisions(self) -> int:
        """Made so far."""

    @property
    def fault(self) -> Fault:
        """Why a decision was refused; read after ILLEGAL alone."""

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL (flush the log), PAUSE or ILLEGAL (`sim.kernel.advance`)."""


class CheckedLoop(ABC):
    """A loop whose orders are checked as Python's are, kept in `self.book`.

    `book` (4,) is written by compiled code: decisions made, and verdict, job and GPU or partition
    of the last.
    """

    def __init__(self) -> None:
        """Nothing has been decided."""
        self.book: IntArray = np.zeros(4, dtype=np.int64)

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self.book[0])

    @property
    def fault(self) -> Fault:
        """Why a decision was refused."""
        _, verdict, job, what = self.book.tolist()
        return verdict, job, what

    @abstractmethod
    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""


@runtime_checkable
class Looping(Protocol):
    """A scheduler that can play a whole run in a loop of its own: the decisions of `decide`."""

    def why_python(self) -> str:
        """Why it cannot as it is; empty if it can."""

    def loop(self, state: State, views: ViewMaker) -> Loop:
        """The loop for a run that begins; `views` grants the scheduler's `needs`."""


def drive(loop: Loop, flush: Callable[[], None], tell: Callable[[], None]) -> int:
    """Play until nothing happens any more: OVER, STUCK or ILLEGAL.

    Args:
        loop: of a run at its beginning.
        flush: empties the log's buffers.
        tell: called every 1,000 decisions.
    """
    stop = EVERY
    while True:
        verdict = loop.play(stop)
        if verdict == FULL:
            flush()
        elif verdict == PAUSE:
            stop += EVERY
            tell()
        else:
            return verdict
