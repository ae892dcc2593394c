"""What is being compiled, and about how long that takes: with a bar on a terminal, else in the log.

Compiled code is kept, so this is seen once for each kind of run after an installation or an edit.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, install_listener

from sim.jit import Reach, is_of_project, kept_in, name_of, reach_of

if TYPE_CHECKING:
    from rich.progress import Progress

log = logging.getLogger(__name__)

# Processor time, from six kinds of run; up to three times as long for one of them.
NEW_S = 0.12  # a function that is compiled
KEPT_S = 0.25  # a kept one that it calls: loaded, and optimised again with its caller
SHORTEST_S = 1.0  # what is over sooner is not told
ROUGH_S = 10.0  # longer ones are told in steps of 5 s
DRAW_EVERY_S = 0.25


@contextmanager
def telling_what_compiles() -> Iterator[None]:
    """Within, compilations of the main process are told; its workers stay silent."""
    teller = CompileTeller()
    try:
        with install_listener("numba:compile", teller):
            yield
    finally:
        teller.stop()


class CompileTeller(Listener):
    """Hears of compilations, one inside another, and tells of each outermost function once."""

    def __init__(self) -> None:
        """Nothing is being compiled."""
        self._process = os.getpid()  # a forked worker has another
        self._depth = 0
        self._told = set[str]()
        self._status: Status | None = None

    def on_start(self, event: Event) -> None:
        """A compilation begins; one that comes first in the stack is told."""
        self._depth += 1
        dispatcher = event.data["dispatcher"]
        if self._depth == 1 and os.getpid() == self._process and is_of_project(dispatcher):
            self._tell(dispatcher)

    def on_end(self, event: Event) -> None:
        """A compilation has ended, well or badly."""
        self._depth -= 1
        if self._status is not None and is_of_project(event.data["dispatcher"]):
            self._status.add_one()
        if self._depth == 0:
            self.stop()

    def stop(self) -> None:
        """Nothing moves any more."""
        if self._status is not None:
            self._status.close()
            self._status = None

    def _tell(self, dispatcher: Dispatcher) -> None:
        name = name_of(dispatcher)
        if name in self._told:
            return
        reach = reach_of(dispatcher)
        seconds = seconds_for(reach)
        if seconds < SHORTEST_S:
            return
        self._told.add(name)
        words = sentence(name, seconds, keeps=kept_in(dispatcher) is not None)
        if sys.stderr.isatty():
            self._status = Status(words, reach.new)
        else:
            log.info("%s", words)


class Status:
    """A line on a terminal that stays, and below it one that moves: functions done, time passed."""

    def __init__(self, words: str, functions: int) -> None:
        """Say `words`, and draw."""
        self._bar = _bar()
        self._task = self._bar.add_task("compiling", total=functions)
        self._drawn = time.perf_counter()
        self._bar.start()
        self._bar.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def add_one(self) -> None:
        """One function more is compiled; drawn here too, for within another bar nothing ticks."""
        self._bar.advance(self._task)
        now = time.perf_counter()
        if now - self._drawn >= DRAW_EVERY_S:
            self._drawn = now
            self._bar.refresh()

    def close(self) -> None:
        """Take the moving line away."""
        self._bar.stop()


def seconds_for(reach: Reach) -> float:
    """About how long compiling takes."""
    return NEW_S * reach.new + KEPT_S * reach.kept


def sentence(name: str, seconds: float, *, keeps: bool) -> str:
    """What is said of one outermost function; `keeps`: its code is kept for the next process."""
    step = 1 if seconds < ROUGH_S else 5
    about = f"about {max(round(seconds / step), 1) * step} s"
    if not keeps:
        return f"compiling {name}: {about}, in every process"
    place = os.environ.get("NUMBA_CACHE_DIR")
    where = f"in {place}" if place else "beside the sources"
    return f"compiling {name}: once for this kind of run, {about}; kept {where}"


def _bar() -> "Progress":
    from rich.progress import (
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    from gpuyard.launch.terminal import error_console

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        TextColumn("functions"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=error_console(), transient=True)
