"""What a program tells while it works: tables, counts of runs, what is compiled, how far a run is.

Bars are on standard error, where that is no terminal a line now and then. Compiled code is kept, so
compilations are seen once for each kind of run after an installation or an edit.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, install_listener

from gpuyard.launch.errors import heed_ctrl_c
from sim.compiling import is_of_project, kept_in, name_of, reach_of
from sim.errors import TraceError
from sim.times import DAY_S

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from sim.protocols import Scheduler
    from sim.run import Run
    from sim.simulator import Simulator


log = logging.getLogger(__name__)


def open_streams() -> None:
    """Let what a caller has closed, like `>&-`, be written to; make no error of a missing sign."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± still gets its table


@contextmanager
def reworded(rewrite: Callable[[str], str]) -> Iterator[None]:
    """Within, errors and warnings of traces are told in the words that `rewrite` makes of them."""
    make = logging.getLogRecordFactory()

    def rewritten(*given: Any, **more: Any) -> logging.LogRecord:
        record = make(*given, **more)
        if record.name.startswith("sim.traces"):
            record.msg, record.args = rewrite(record.getMessage()), ()
        return record

    logging.setLogRecordFactory(rewritten)
    try:
        yield
    except TraceError as error:
        said = rewrite(str(error))
        raise error if said == str(error) else TraceError(said) from None
    finally:
        logging.setLogRecordFactory(make)


NARROWEST_PIPED = 240  # columns where standard output is no terminal: a headline has over 190


def table_console() -> Console:
    """Standard output, wide enough for a table where it is no terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST_PIPED))


@cache
def error_console() -> Console:
    """Standard error. One for all bars of a process, so that one shows below another."""
    from rich.console import Console

    return Console(stderr=True)


def phase_bars(done: str, *, console: Console, only_drawn: bool = False) -> Progress:
    """A bar a phase, with the field `note` behind it.

    Args:
        done: how far a phase is, a format of rich for its `task`.
        console: where.
        only_drawn: nothing at all where that is no terminal; else the last state is printed there.
    """
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn(done),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=console,
        disable=only_drawn and not console.is_terminal,
    )


LINE_EVERY_S = 60.0
LOOK_EVERY_S = 1.0


class RunCount:
    """A context in which runs are counted; the bar is on standard error."""

    def __init__(
        self, what: str, total: int, *, done: int = 0, unit: str = "runs",
        ahead: Sequence[str] = (), at_once: int = 1,
    ) -> None:  # fmt: skip
        """`what` is being done; `done` of the `total` runs are there already.

        `ahead`: names of those to come, in the order in which they begin, `at_once` at a time.
        """
        from rich import progress

        self._total, self._done, self._before, self._unit = total, done, done, unit
        self._began = self._last_line_s = time.perf_counter()
        console = error_console()
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn(f"{unit}, {{task.fields[last]}}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._ahead, self._at_once = [*ahead], at_once
        started = f"starting{self._now()}"
        self._task = self._bar.add_task(what, total=total, completed=done, last=started)
        self._last, self._lock, self._ended = "none yet", threading.Lock(), threading.Event()

    def __enter__(self) -> RunCount:
        """Show the bar, or look for a minute gone by: a run may take longer than one."""
        self._bar.start()
        if self._bar.disable:
            threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._ended.set()
        self._bar.stop()

    def tell(self, last: str) -> None:
        """One more run has ended: `last`."""
        heed_ctrl_c()
        self._done += 1
        self._last = last
        if last in self._ahead:
            self._ahead.remove(last)
        self._bar.update(self._task, completed=self._done, last=f"{last}{self._now()}")
        if self._bar.disable:
            self._tell_if_due()

    def _now(self) -> str:
        names = " | ".join(self._ahead[: self._at_once])
        return f"; now: {names}" if names else ""

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._tell_if_due()

    def _tell_if_due(self) -> None:
        with self._lock:
            now = time.perf_counter()
            if now - self._last_line_s < LINE_EVERY_S:
                return
            self._last_line_s = now
        # Some come many at once, after long: the first ones do not tell how long it will take.
        log.info(
            "%d/%d %s, %d of them in %.1f min; last: %s%s",
            self._done, self._total, self._unit, self._done - self._before,
            (now - self._began) / 60.0, self._last, self._now(),
        )  # fmt: skip


def clock_text(seconds: float) -> str:
    """Like `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# Processor time, from six kinds of run; up to three times as long for one of them.
NEW_S = 0.08  # a function that is compiled
KEPT_S = 0.17  # a kept one that it calls: loaded, and optimised again with its caller
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
        self._named = set[str]()
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
        if name in self._named:
            return
        reach = reach_of(dispatcher)
        seconds = NEW_S * reach.new + KEPT_S * reach.kept
        if seconds < SHORTEST_S:
            return
        self._named.add(name)
        words = sentence(name, seconds, keeps=kept_in(dispatcher) is not None)
        if sys.stderr.isatty():
            self._status = Status(words, reach.new)
        else:
            log.info("%s", words)


class Status:
    """A line on a terminal that stays, and below it one that moves: functions done, time passed."""

    def __init__(self, words: str, functions: int) -> None:
        """Say `words`, and draw."""
        from rich import progress

        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.MofNCompleteColumn(),
            progress.TextColumn("functions"),
            progress.TimeElapsedColumn(),
            console=error_console(),
            transient=True,
        )
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


def sentence(name: str, seconds: float, *, keeps: bool) -> str:
    """What is said of one outermost function; `keeps`: its code is kept for the next process."""
    step = 1 if seconds < ROUGH_S else 5
    about = f"about {max(round(seconds / step), 1) * step} s"
    if not keeps:
        return f"compiling {name}: {about}, in every process (NUMBA_CACHE_DIR=DIR would keep it)"
    place = os.environ.get("NUMBA_CACHE_DIR")
    where = f"in {place}" if place else "beside the sources"
    return f"compiling {name}: once for this kind of run, {about}; kept {where}"


RUN_LINE_EVERY_S = 30.0  # where standard error is no terminal


def run_with_progress(
    simulator: Simulator, scheduler: Scheduler, seed: int, *, compiled: bool
) -> Run:
    """Simulate to the end, telling on standard error how far the run is.

    With `compiled` in a compiled form of the scheduler, where it has one (`simulate`).
    Simulated days, jobs done, jobs/s, simulated over wall time, waiting jobs, time left.
    """
    from sim.simulator import simulate  # other programs do without

    if not sys.stderr.isatty():
        tell = Lines(simulator, scheduler.name).tell
        return simulate(simulator, scheduler, seed, tell, compiled=compiled)
    with _run_bar() as bar:
        tell = Bar(simulator, scheduler.name, bar).tell
        return simulate(simulator, scheduler, seed, tell, compiled=compiled)


class Lines:
    """How far a run is: one line on standard error every RUN_LINE_EVERY_S."""

    every_s = RUN_LINE_EVERY_S

    def __init__(self, simulator: Simulator, name: str) -> None:
        """Start the clock, and say nothing yet: short runs stay silent."""
        self.total, self.from_s = len(simulator.jobs), float(simulator.jobs.submit_s[0])
        self._simulator, self._name = simulator, name
        self._began = self._last_line_s = time.perf_counter()

    def tell(self, done: int, now_s: float) -> None:
        """Called by the simulation about every 1,000 decisions."""
        heed_ctrl_c()
        now = time.perf_counter()
        if now - self._last_line_s >= self.every_s:
            self._last_line_s = now
            self._show(done, self.words(done, now_s))

    def _show(self, done: int, words: str) -> None:
        share = f"{done:,}/{self.total:,} jobs ({done / self.total:.0%})"
        print(f"{self._name}: {share}, {words}", file=sys.stderr)

    def words(self, done: int, now_s: float) -> str:
        """How far, how fast, how long still; the rest is judged by the jobs that are done."""
        wall_s = max(time.perf_counter() - self._began, 1e-9)
        passed_s = max(now_s - self.from_s, 0.0)
        waiting = int(self._simulator.state.world["num_queued"][0])
        left = clock_text(wall_s * (self.total - done) / done) if done else "?"
        return (
            f"day {passed_s / DAY_S:.1f}, {done / wall_s:,.0f} jobs/s, "
            f"{passed_s / wall_s:,.0f} x real time, {waiting:,} waiting, {left} left"
        )


class Bar(Lines):
    """A bar that is redrawn every DRAW_EVERY_S, by the simulation itself: no thread beside it."""

    every_s = DRAW_EVERY_S

    def __init__(self, simulator: Simulator, name: str, bar: Progress) -> None:
        """Draw the empty bar."""
        super().__init__(simulator, name)
        self._bar, self._task = bar, bar.add_task(name, total=self.total, words="starting")
        bar.refresh()

    def _show(self, done: int, words: str) -> None:
        self._bar.update(self._task, completed=done, words=words, refresh=True)


def _run_bar() -> Progress:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TextColumn("jobs, {task.fields[words]}"),
    )
    return progress.Progress(*columns, console=error_console(), transient=True, auto_refresh=False)
