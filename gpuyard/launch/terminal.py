"""Tables on standard output, and bars and counts of runs on standard error."""

import logging
import threading
import time
from functools import cache

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

NARROWEST_PIPED = 180  # columns where standard output is no terminal


def table_console() -> Console:
    """Standard output, wide enough for a table where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST_PIPED))


@cache
def error_console() -> Console:
    """Standard error. One for all bars of a process, so that one shows below another."""
    return Console(stderr=True)


log = logging.getLogger(__name__)

LINE_EVERY_S = 60.0
LOOK_EVERY_S = 1.0


class RunCount:
    """A context in which runs are counted; the bar is on standard error."""

    def __init__(self, what: str, total: int, *, done: int = 0, unit: str = "runs") -> None:
        """`what` is being done; `done` of the `total` runs are there already."""
        self._total, self._done, self._before, self._unit = total, done, done, unit
        self._began = self._told = time.perf_counter()
        console = error_console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{unit}, {{task.fields[last]}}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=total, completed=done, last="starting")
        self._last, self._lock, self._ended = "none yet", threading.Lock(), threading.Event()

    def __enter__(self) -> "RunCount":
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
        self._done += 1
        self._last = last
        self._bar.update(self._task, completed=self._done, last=last)
        if self._bar.disable:
            self._tell_if_due()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._tell_if_due()

    def _tell_if_due(self) -> None:
        with self._lock:
            now = time.perf_counter()
            if now - self._told < LINE_EVERY_S:
                return
            self._told = now
        # Some come many at once, after long: the first ones do not tell how long it will take.
        log.info(
            "%d/%d %s, %d of them in %.1f min; last: %s",
            self._done, self._total, self._unit, self._done - self._before,
            (now - self._began) / 60.0, self._last,
        )  # fmt: skip


def clock_text(seconds: float) -> str:
    """Like `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
