"""How far many runs are: a bar on a terminal, else a line in the log every minute."""

import logging
import time

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from terminal import error_console

log = logging.getLogger(__name__)

LINE_EVERY_S = 60.0


class RunCount:
    """A context in which runs are counted; the bar is on standard error."""

    def __init__(self, what: str, total: int, *, done: int = 0) -> None:
        """`what` is being done; `done` of the `total` runs are there already."""
        self._total, self._done, self._before = total, done, done
        self._began = self._told = time.perf_counter()
        console = error_console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs, {task.fields[last]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=total, completed=done, last="starting")

    def __enter__(self) -> "RunCount":
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._bar.stop()

    def tell(self, last: str) -> None:
        """One more run has ended: `last`."""
        self._done += 1
        self._bar.update(self._task, completed=self._done, last=last)
        now = time.perf_counter()
        if self._bar.disable and now - self._told >= LINE_EVERY_S:
            self._told = now
            # Some come many at once, after long: the first ones do not tell how long it will take.
            passed_min = (now - self._began) / 60.0
            log.info(
                "%d/%d runs, %d of them in %.1f min; last: %s",
                self._done, self._total, self._done - self._before, passed_min, last,
            )  # fmt: skip
