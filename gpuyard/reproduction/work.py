"""Runs what is not stored yet, side by side, storing each run as it ends."""

import logging
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from joblib import cpu_count

from gpuyard.evaluation.task import Outcome, Task, batches_of, run_batch
from gpuyard.launch.sweeps import in_processes, processes_of
from gpuyard.launch.terminal import RunCount
from gpuyard.reproduction.curves import curves_of
from gpuyard.reproduction.plan import Planned
from gpuyard.reproduction.store import PARTS, read_part, write_part
from sim.errors import GpuYardError
from sim.report.comparison import ComparisonRow

log = logging.getLogger(__name__)

Run = tuple[Task, Path]  # and where it is stored
Play = Callable[[Sequence[Task]], Sequence[Outcome]]


@dataclass(frozen=True)
class Done:
    """How one run ended."""

    part: str  # name of its file
    error: str | None  # a traceback; None: it is stored


def run_missing(
    planned: Sequence[Planned], folder: Path, *, jobs: int, play: Play = run_batch
) -> tuple[list[ComparisonRow | None], list[str]]:
    """Make every run that has no file in `folder/parts` yet; the others are read.

    Windows of one scheduler are played together where that is cheaper. A run that fails does not
    end the others; one that several cells ask for is made once. `play`: of a batch.

    Returns:
        Rows in the order of `planned`, None where the run failed; and what went wrong, in words.

    Raises:
        ConfigError: `jobs` is no whole number, or 0; or a stored file is broken.
    """
    processes = processes_of(jobs, cpu_count())
    parts = folder / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    found = [read_part(parts / p.part, role=p.task.contender.role) for p in planned]
    places: dict[str, list[int]] = defaultdict(list)
    for place in (place for place, row in enumerate(found) if row is None):
        places[planned[place].part].append(place)
    todo = {planned[first].task: parts / part for part, (first, *_) in places.items()}
    missing = sum(map(len, places.values()))
    log.info("%d runs, %d of them done before", len(planned), len(planned) - missing)
    failures = []
    with RunCount("reproducing", len(planned), done=len(planned) - missing) as count:
        for done in _ended(todo, processes, play):
            for place in places[done.part]:
                run = planned[place]
                count.tell(run.cell)
                if done.error is None:
                    found[place] = read_part(parts / run.part, role=run.task.contender.role)
                else:
                    failures.append(_told(run, done.error))
    return found, failures


def run_all(
    planned: Sequence[Planned], folder: Path, *, jobs: int, play: Play = run_batch
) -> list[ComparisonRow]:
    """`run_missing` where no run may fail.

    Raises:
        GpuYardError: some did.
    """
    rows, failures = run_missing(planned, folder, jobs=jobs, play=play)
    if failures:
        raise GpuYardError("\n".join([f"{len(failures)} runs failed; the first:", failures[0]]))
    return [row for row in rows if row is not None]


def _told(run: Planned, error: str) -> str:
    """A failure in words, which the log has in short."""
    task, counted = run.task, run.task.contender.agents
    agents = "" if counted is None else f"{counted} agents, "
    where = f"{task.contender.place}, {agents}{run.cell}, {task.part} window {task.window}"
    log.error("failed: %s: %s", where, error.strip().splitlines()[-1])
    return f"{where}\n{error}"


def _ended(todo: Mapping[Task, Path], processes: int, play: Play) -> Iterator[Done]:
    """Runs as they end, in no particular order."""
    batches = ([(task, todo[task]) for task in batch] for batch in batches_of([*todo], processes))
    call = partial(_run_stored, play)
    yield from chain.from_iterable(in_processes(call, batches, processes))


def _run_stored(play: Play, batch: Sequence[Run]) -> list[Done]:
    """Runs, each stored where it was made, so that only runs in flight are lost with the parent.

    Where a batch of several fails they are made one by one, which tells the windows that fail.
    """
    try:
        outcomes = play([task for task, _ in batch])
        for outcome, (_, path) in zip(outcomes, batch, strict=True):
            write_part(path, outcome.row, curves_of(outcome))
    except Exception:  # whatever one scheduler does, the other runs go on
        if len(batch) > 1:
            return [done for run in batch for done in _run_stored(play, [run])]
        return [Done(batch[0][1].name, traceback.format_exc())]
    return [Done(path.name, None) for _, path in batch]
