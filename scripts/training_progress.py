"""Progress of a training: bars on a terminal, else a line of the log an iteration."""

import logging
import math
import time

from progress import clock_text
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from terminal import error_console

from marl.rllib.trainer import Iteration

log = logging.getLogger(__name__)

HOUR_S = 3600.0
SHORT = 10.0  # returns below it are told to three decimals


def training_bars() -> Progress:
    """A bar a phase; nothing where standard error is no terminal (see `Iterations`)."""
    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = error_console()
    return Progress(*columns, console=console, disable=not console.is_terminal)


class Iterations:
    """Tells how far PPO is."""

    def __init__(self, progress: Progress, *, made: int, total: int, until: float | None) -> None:
        """`made` iterations of `total` are there; it ends at `until` of the monotonic clock."""
        self._progress, self._first, self._total, self._until = progress, made, total, until
        self._began = time.monotonic()
        self._task = progress.add_task("PPO", total=total, note="")

    def tell(self, done: Iteration, judged_s: float | None, best_s: float) -> None:
        """One more is made; `judged_s`: validation JCT, if the policy was judged."""
        words = return_text(done.return_mean)
        best = f"best validation JCT {jct_text(best_s)}"
        self._progress.update(self._task, completed=done.number, note=f"{words}, {best}")
        if self._progress.disable:
            judged = "" if judged_s is None else f"validation JCT {jct_text(judged_s)}, "
            left = clock_text(self._left_s(done.number))
            log.info(
                "iteration %d/%d: %s, %s%s, %s left",
                done.number, self._total, words, judged, best, left,
            )  # fmt: skip

    def _left_s(self, number: int) -> float:
        """As long as the iterations so far took each, unless the budget ends it before."""
        now = time.monotonic()
        each_s = (now - self._began) / max(number - self._first, 1)
        left_s = each_s * max(self._total - number, 0)
        return left_s if self._until is None else max(min(left_s, self._until - now), 0.0)


def return_text(value: float) -> str:
    """A mean episode return; NaN: no episode ended."""
    if math.isnan(value):
        return "no whole episode yet"
    return f"return {value:,.1f}" if abs(value) >= SHORT else f"return {value:.3f}"


def jct_text(seconds: float) -> str:
    """Like `2.31 h (8,316 s)`."""
    return f"{seconds / HOUR_S:,.2f} h ({seconds:,.0f} s)"
