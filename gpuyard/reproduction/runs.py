"""Runs of a reproduction: what is not stored yet is made side by side, each stored as it ends.

A run is a small file named after what decides its result, with its row and what a page draws of it.
"""

import json
import logging
import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import cpu_count

from gpuyard.evaluation.again import Again, best_first, best_two, seen_again, write_views
from gpuyard.evaluation.assumed import assumptions
from gpuyard.evaluation.experiment import opened
from gpuyard.evaluation.task import Outcome, Task, assumed_of, batches_of, run_batch, run_of
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.launch.sweeps import in_processes, processes_of, run_program
from gpuyard.launch.terminal import RunCount
from gpuyard.pages.comparison_page import CURVES
from gpuyard.pages.page import numbers
from gpuyard.reproduction.planned import Planned
from sim.errors import GpuYardError, amount, override
from sim.files import FIRST_ROLES, ComparisonRow, Labels, write_atomically
from sim.report.significance import Ranking

log = logging.getLogger(__name__)

PARTS, ONCE, WORDS = "parts", "made_by.json", "words.json"


def run_once(folder: Path, words: Sequence[str], *, goes_on: bool = False) -> None:
    """Run one of our programs in a process and a folder of its own, unless it ended there before.

    Other `words` (as behind `gpuyard`) are another run. `goes_on`: of a training, which goes on
    with what the same words left there. GpuYardError: it ended with another status than 0.
    """
    done, text = folder / ONCE, json.dumps(list(words))
    if done.is_file() and done.read_text("utf-8") == text:
        return
    how = [override("hydra.run.dir", folder)]
    if goes_on:
        begin_training(folder, words)
        how.append("resume=auto")
    done.unlink(missing_ok=True)
    log.info("%s in %s", " ".join(words), folder)
    status = run_program([*words, *how])
    if status != 0:
        raise GpuYardError(
            f"{' '.join(words)} ended with status {status}; what it said is above, its log in "
            f"{folder}"
        )
    done.write_text(text, encoding="utf-8")


def begin_training(folder: Path, overrides: Sequence[str]) -> None:
    """Make the folder of a training; what one by other overrides left there is gone."""
    kept, text = folder / WORDS, json.dumps([*overrides])
    if not kept.is_file() or kept.read_text(encoding="utf-8") != text:
        if folder.is_dir():
            log.warning("%s was trained by other words; it is dropped and begun anew", folder)
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, text.encode())


def assumed_in(planned: Sequence[Planned]) -> tuple[str, ...]:
    """What the first cell takes for granted, and the others beside that."""
    setting_of: dict[str, str] = {}
    for each in planned:
        setting_of.setdefault(each.cell, each.task.setting)
    (first, setting), *others = setting_of.items()
    known = assumed_of(setting, [each.task for each in planned if each.cell == first])
    beside = [
        f"{cell}: {what}"
        for cell, other in others
        for what in assumptions(json.loads(other), opened(other))
        if what not in known
    ]
    for words in beside:
        log.warning("assumed in %s", words)
    return *known, *beside


def forget_stored(launch: Launch, name: str) -> None:
    """With `fresh=true` drop the runs that are stored in this folder of the launch."""
    if launch.config["fresh"]:
        shutil.rmtree(launch.folder / name, ignore_errors=True)


def write_part(path: Path, row: ComparisonRow, curves: Mapping[str, Any]) -> None:
    """Store one finished run, and what its page draws of it, whole or not at all."""
    content = {"labels": row.labels.as_dict(), "metrics": dict(row.metrics), "curves": curves}
    write_atomically(path, json.dumps(content).encode())


def write_frame(
    path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> None:
    """A table as CSV, whole or not at all; what is missing is empty."""
    frame = pd.DataFrame(rows, columns=None if columns is None else list(columns))
    write_atomically(path, frame.to_csv(index=False).encode())


def rank_rows(found: Ranking) -> list[dict[str, Any]]:
    """Rows of ranks.csv: a scheduler or method each, with the test that is of all."""
    test = {
        "blocks": found.blocks, "friedman_chi2": found.friedman_chi2,
        "friedman_p": found.friedman_p, "critical_difference": found.critical_difference,
        "level": found.level,
    }  # fmt: skip
    return [{**test, "scheduler": name, "mean_rank": rank} for name, rank in found.rank_of.items()]


def read_curves(path: Path) -> dict[str, Any]:
    """What a page draws of a stored run; empty where it was stored without."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")).get("curves", {})
    return found


def read_part(path: Path, task: Task) -> ComparisonRow | None:
    """A stored run, with the role that it has now and the part that it is of; None: there is none.

    Raises:
        ConfigError: the file is no result of a run.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        now = {"role": task.contender.role, "part": task.part}  # older files have no part
        return ComparisonRow(Labels(**{**found["labels"], **now}), found["metrics"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is no result of a run; remove it to run it again") from None


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
    found = [read_part(parts / each.part, each.task) for each in planned]
    places: dict[str, list[int]] = defaultdict(list)
    for place in (place for place, row in enumerate(found) if row is None):
        places[planned[place].part].append(place)
    todo = {planned[first].task: parts / part for part, (first, *_) in places.items()}
    missing = sum(map(len, places.values()))
    log.info("%s, %d of them done before", amount(len(planned), "run"), len(planned) - missing)
    failures = []
    batches = ([(task, todo[task]) for task in batch] for batch in batches_of([*todo], processes))
    with RunCount("reproducing", len(planned), done=len(planned) - missing) as count:
        # Held by the loop alone: where it is left by an error, the workers are ended.
        for done in chain.from_iterable(
            in_processes(partial(_run_stored, play), batches, processes)
        ):
            for place in places[done.part]:
                run = planned[place]
                count.tell(run.cell)
                if done.error is None:
                    found[place] = read_part(parts / run.part, run.task)
                else:
                    failures.append(_failure_text(run, done.error))
    return found, failures


def run_all(
    planned: Sequence[Planned], folder: Path, *, jobs: int, play: Play = run_batch
) -> list[ComparisonRow]:
    """`run_missing`; GpuYardError: some run failed."""
    rows, failures = run_missing(planned, folder, jobs=jobs, play=play)
    if failures:
        raise GpuYardError(f"{amount(len(failures), 'run')} failed; the first:\n{failures[0]}")
    return [row for row in rows if row is not None]


def _failure_text(run: Planned, error: str) -> str:
    """A failure in words, which the log has in short."""
    task, counted = run.task, run.task.contender.agents
    agents = "" if counted is None else f"{amount(counted, 'agent')}, "
    where = f"{task.contender.place}, {agents}{run.cell}, {task.part} window {task.window}"
    log.error("failed: %s: %s", where, error.strip().splitlines()[-1])
    return f"{where}\n{error}"


def _run_stored(play: Play, batch: Sequence[Run]) -> list[Done]:
    """Runs, each stored where it was made, so that only runs in flight are lost with the parent.

    Where a batch of several fails they are made one by one, which tells the windows that fail.

    Raises:
        OSError: they cannot be stored, on a full disk for example; nor could the others.
    """
    try:
        outcomes = [(each.row, curves_of(each)) for each in play([task for task, _ in batch])]
    except Exception:  # whatever one scheduler does, the other runs go on
        if len(batch) > 1:
            return [done for run in batch for done in _run_stored(play, [run])]
        return [Done(batch[0][1].name, traceback.format_exc())]
    for outcome, (_, path) in zip(outcomes, batch, strict=True):
        write_part(path, *outcome)
    return [Done(path.name, None) for _, path in batch]


QUANTILES, BINS = 100, 100  # of each run; of window 0
MOST_CURVES = 12

Curves = dict[str, dict[str, list[tuple[Planned, ComparisonRow]]]]  # by title and scheduler


def curves_of(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a run: quantiles of its completion times; of window 0 use and queue, too."""
    times_s = outcome.jobs["jct_s"].dropna().to_numpy(dtype=float)
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found: dict[str, Any] = {"jct_s": numbers(np.quantile(times_s, shares)) if len(times_s) else []}
    timeline = outcome.timeline
    if outcome.row.labels.window == 0 and len(timeline.time_s) > 1:
        for key in ("time_s", "gpu_util_frac", "queue_jobs"):
            parts = np.array_split(getattr(timeline, key), min(BINS, len(timeline.time_s)))
            found[key] = numbers(each[0] if key == "time_s" else each.mean() for each in parts)
    return found


def write_drawn(launch: Launch, done: Iterable[tuple[Planned, ComparisonRow]]) -> None:
    """Write what the page draws: curves.json, and views.json where there is to be a page."""
    settings = _settings(done)
    _write_curves(launch.folder, settings)
    if launch.config["page"] and settings:
        title, runs = next(iter(settings.items()))
        _write_views(launch, title, runs)


def _write_views(
    launch: Launch, title: str, runs: Mapping[str, list[tuple[Planned, ComparisonRow]]]
) -> None:
    """Window 0 of ours and its best rival in one setting, played again and shown whole."""
    roles = {name: runs[name][0][1].labels.role for name in _shown(runs)}
    ours = next((name for name, role in roles.items() if role == "ours"), None)
    again = []
    for name in best_two(roles, ours):
        planned, row = min(runs[name], key=lambda run: run[1].labels.window)
        where = f"{name}, {title}, window {row.labels.window}"
        play = partial(run_of, planned.task)
        again.append(Again(where, row.labels.scheduler, play, row.metrics))
    seen = seen_again(again, processes=processes_of(launch.config["jobs"], cpu_count()))
    write_views(launch.folder, [section for each in seen for section in each.sections])


def _write_curves(folder: Path, found: Curves) -> None:
    """Setting by setting, so many schedulers' curves, windows pooled."""
    settings = []
    for title, runs in found.items():
        curves = [_pooled(folder, name, runs[name]) for name in _shown(runs)]
        kept = [each for each in curves if each["jct_s"]]
        settings.append({"title": title, "of": len(runs), "curves": kept})
    write_atomically(
        folder / CURVES, json.dumps([each for each in settings if each["curves"]]).encode()
    )


def _settings(done: Iterable[tuple[Planned, ComparisonRow]]) -> Curves:
    """Runs by cell and number of agents; a global queue stands beside every number."""
    rows = [(planned, row) for planned, row in done if not planned.picks]
    counts: dict[str, dict[int, None]] = {planned.cell: {} for planned, _ in rows}
    for planned, row in rows:
        if row.labels.role != "global_queue":
            counts[planned.cell][row.labels.agents] = None
    found: Curves = {}
    for planned, row in rows:
        here, alone = counts[planned.cell], row.labels.role == "global_queue"
        for agents in here if alone else [row.labels.agents]:
            title = f"{planned.cell}, {amount(agents, 'agent')}" if len(here) > 1 else planned.cell
            name = row.labels.scheduler + (", one queue" if alone else "")
            found.setdefault(title, {}).setdefault(name, []).append((planned, row))
    return found


def _shown(runs: Mapping[str, list[tuple[Planned, ComparisonRow]]]) -> list[str]:
    """The best of each role that counts, then the best others, all by mean JCT."""
    ordered = best_first(
        {name: [row.metrics["jct_mean_s"] for _, row in found] for name, found in runs.items()}
    )
    roles = {name: runs[name][0][1].labels.role for name in ordered}
    first = {next((name for name in ordered if roles[name] == role), "") for role in FIRST_ROLES}
    rest = [name for name in ordered if name not in first][: MOST_CURVES - len(first - {""})]
    return [name for name in ordered if name in first or name in rest]


def _pooled(
    folder: Path, name: str, runs: Sequence[tuple[Planned, ComparisonRow]]
) -> dict[str, Any]:
    found = [read_curves(folder / PARTS / planned.part) for planned, _ in runs]
    timeline = next((each for each in found if "queue_jobs" in each), {})
    pooled = [value for each in found for value in each.get("jct_s", [])]
    windows = sum("jct_s" in each for each in found)
    whose = runs[0][1].labels.scheduler
    return {**timeline, "name": name, "scheduler": whose, "windows": windows, "jct_s": pooled}
