"""Runs what is not stored yet, side by side, storing each run as it ends."""

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evaluate_task import Task, run_task
from joblib import Parallel, delayed, parallel_config
from launch_errors import ConfigError
from reproduce_plan import Planned
from reproduce_store import PARTS, read_part, write_part
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sim.report.comparison_row import ComparisonRow

log = logging.getLogger(__name__)

LINE_EVERY_S = 60.0  # in the log, where standard error is no terminal


@dataclass(frozen=True)
class Done:
    """How one run ended."""

    place: int  # in the list of runs
    error: str | None  # a traceback; None: it is stored


def run_missing(
    planned: Sequence[Planned], folder: Path, *, jobs: int
) -> tuple[list[ComparisonRow | None], list[str]]:
    """Make every run that has no file in `folder/parts` yet; the others are read.

    A run that fails does not end the others.

    Returns:
        Rows in the order of `planned`, None where the run failed; and what went wrong, in words.

    Raises:
        ConfigError: `jobs` is no whole number, or 0; or a stored file is broken.
    """
    if type(jobs) is not int or jobs == 0:
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one process a core")
    parts = folder / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    found = [read_part(parts / p.part, role=p.task.contender.role) for p in planned]
    todo = [place for place, row in enumerate(found) if row is None]
    log.info("%d runs, %d of them done before", len(planned), len(planned) - len(todo))
    failures = []
    work = [(place, planned[place].task, parts / planned[place].part) for place in todo]
    with Meter(planned, done=len(planned) - len(todo)) as meter:
        for done in _ended(work, jobs):
            run = planned[done.place]
            meter.tell(run)
            if done.error is None:
                path, role = parts / run.part, run.task.contender.role
                found[done.place] = read_part(path, role=role)
            else:
                where = f"{run.task.contender.place}, {run.cell}, window {run.task.window}"
                log.error("failed: %s: %s", where, done.error.strip().splitlines()[-1])
                failures.append(f"{where}\n{done.error}")
    return found, failures


def _ended(work: Sequence[tuple[int, Task, Path]], jobs: int) -> Iterator[Done]:
    """Runs as they end, in no particular order."""
    if not work:
        return
    if jobs == 1:
        # Not in the main thread, where run_task would shut out Ctrl-C as in a worker process.
        with ThreadPoolExecutor(1) as pool:
            try:
                yield from pool.map(_run_one, *zip(*work, strict=True))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(
            delayed(_run_one)(*each) for each in work
        )


def _run_one(place: int, task: Task, path: Path) -> Done:
    """One run, stored where it was made, so that only runs in flight are lost with the parent."""
    try:
        write_part(path, run_task(task).row)
    except Exception:  # whatever one scheduler does, the other runs go on
        return Done(place, traceback.format_exc())
    return Done(place, None)


class Meter:
    """A bar on a terminal, else a line in the log every minute."""

    def __init__(self, planned: Sequence[Planned], *, done: int) -> None:
        """`done`: runs that are there already."""
        self._total, self._done, self._before = len(planned), done, done
        self._began = self._told = time.perf_counter()
        console = Console(stderr=True)
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
        self._task = self._bar.add_task(
            "reproducing", total=self._total, completed=done, last="starting"
        )

    def __enter__(self) -> "Meter":
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._bar.stop()

    def tell(self, run: Planned) -> None:
        """One more run has ended."""
        self._done += 1
        self._bar.update(self._task, completed=self._done, last=run.cell)
        now = time.perf_counter()
        if self._bar.disable and now - self._told >= LINE_EVERY_S:
            self._told = now
            each_s = (now - self._began) / (self._done - self._before)
            left_min = each_s * (self._total - self._done) / 60.0
            log.info(
                "%d/%d runs, about %.0f min left; last: %s",
                self._done, self._total, left_min, run.cell,
            )  # fmt: skip
