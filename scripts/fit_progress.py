"""Progress of a fit of co-location models: a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from terminal import error_console

LINE_EVERY_S = 30.0  # where standard error is no terminal


@contextmanager
def fit_progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function to be told the name of each of `total` steps when it is done."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task("fitting", total=total, last="starting")
            yield lambda what: bar.update(task, advance=1, last=what)
    else:
        yield _Lines(total).tell


class _Lines:
    """One line on standard error every LINE_EVERY_S; short fits stay silent."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total
        self._told = time.monotonic()

    def tell(self, what: str) -> None:
        self._done += 1
        if time.monotonic() - self._told >= LINE_EVERY_S:
            self._told = time.monotonic()
            print(f"fitting: {self._done}/{self._total} steps, {what}", file=sys.stderr)


def _bar() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, {task.fields[last]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=error_console(), transient=True)
