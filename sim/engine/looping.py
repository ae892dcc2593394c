"""Runs whose whole loop is compiled: events and decisions without Python between them."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

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
