"""Compare schedulers on paired windows: `python scripts/evaluate.py checkpoint=DIR windows=5`."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import cpu_count
from omegaconf import DictConfig
from rich.console import Group

from gpuyard.evaluation.again import NOT_A_RESULT, Again, Seen, best_first, best_two, seen_again
from gpuyard.evaluation.assumed import warn_of_idle_words
from gpuyard.evaluation.lineup import lineup_of, without_limits
from gpuyard.evaluation.task import (
    Outcome,
    Task,
    assumed_of,
    check_names,
    distinct,
    ours_of,
    outcomes_of,
    run_of,
    setting_text,
    task_labels,
    warn_of_task,
    windows_played,
)
from gpuyard.launch.build import check_confidence, check_count, check_kinds
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.sweeps import processes_of
from gpuyard.launch.terminal import RunCount, table_console
from gpuyard.pages.comparison_page import curve_of_checkpoint, write_comparison_page
from sim.arrays import FloatArray
from sim.files import FIRST_ROLES, run_names, with_windows, write_atomically
from sim.report.comparison_report import write_comparison
from sim.report.figures import jct_cdf, utilisation_queue
from sim.report.headline import FILES as HEADLINE_FILES
from sim.report.headline import headline_cells, write_headline
from sim.report.run_folder import Record, write_metrics

log = logging.getLogger(__name__)


@program("evaluate")
def main(cfg: DictConfig) -> None:
    """Compose the line-up, run every scheduler on every window, write, print."""
    launch = start(cfg)
    config = launch.config
    check_confidence(config)
    check_kinds(config, bool, "page", "rivals")
    warn_of_idle_words(config, launch.record.overrides)
    tasks = _tasks(config)
    ours = ours_of(tasks, config["ours"])
    if config["rivals"] and ours is None:
        raise ConfigError("rivals=true sets kinds of rivals beside one scheduler; add ours=NAME")
    assumed = assumed_of(tasks[0].setting, tasks)
    record = launch.begin(RESULT_FILES, assumed=assumed)
    outcomes = _counted(outcomes_of(tasks, config["jobs"]), len(tasks))
    tables, focus = write_evaluation(
        launch.folder, outcomes, ours=ours, confidence=config["confidence"], assumed=assumed
    )
    table_console().print(tables)
    if config["rivals"] and ours is not None:
        part, confidence = config["part"], config["confidence"]
        table_console().print(
            write_rivals(launch.folder, outcomes, ours=ours, part=part, confidence=confidence)
        )
    if config["page"]:
        seen = _seen(outcomes, tasks, ours, processes_of(config["jobs"], cpu_count()))
        write_evaluation_page(launch.folder, outcomes, record, config, ours=ours, seen=seen)
    log.info("metrics.json holds the means over windows of %s", focus)
    print(f"results in {launch.folder}")


def _counted(outcomes: Iterable[Outcome], total: int) -> list[Outcome]:
    """All outcomes, once they are there."""
    found: list[Outcome] = []
    with RunCount("evaluating", total) as count:
        for outcome in outcomes:
            found.append(outcome)
            labels = outcome.row.labels
            count.tell(f"{labels.scheduler} window {labels.window}")
    return found


def _tasks(config: dict[str, Any]) -> list[Task]:
    """Window by window, so that a worker meets the same window again.

    An entry's `windows` limits it to the first so many; `cells` is for reproduce.py.
    """
    check_count("windows", config["windows"])
    limits, config = without_limits(config)
    found = [(contender, setting_text(config, contender)) for contender in lineup_of(config)]
    part = str(config["part"])
    first = distinct([Task(setting, contender, part, 0) for contender, setting in found])
    played = windows_played(config["windows"], first[0].setting, part)
    tasks = [
        replace(task, window=window)
        for window in range(played)
        for task in first
        if window < limits.get(task.contender.place.partition(" ")[0], played)
    ]
    for task in first:
        warn_of_task(task)
    check_names(first)
    return tasks


RESULT_FILES = (
    "comparison.csv", "comparison.md", "jct_bars.png", "jct_cdf.png", "utilisation_queue.png",
    *HEADLINE_FILES,
)  # fmt: skip
MOST_CURVES = 12  # of the distribution figure
ALWAYS_DRAWN = ("ours", "published", "linear_score", "ablation")

Ranked = dict[str, list[Outcome]]  # name -> runs, by window


def write_evaluation(
    folder: Path,
    outcomes: Sequence[Outcome],
    *,
    ours: str | None,
    confidence: float,
    assumed: Sequence[str] = (),
) -> tuple[Group, str]:
    """Write every file; `metrics.json` (means over windows of one scheduler) comes last.

    `ours` is divided by the others; None: no ratio.

    Returns:
        The tables, and what metrics.json is about: `ours`, with the fewest agents if it ran with
        several numbers of them, else the best one that is no mere line to compare with.
    """
    ranked = _ranked(outcomes)
    drawn = {name: _pooled_jct_s(ranked[name]) for name in _drawn(ranked)}
    lines = {
        name: (found[0].row.labels.scheduler, found[0].row.labels.role)
        for name, found in ranked.items()
    }
    jct_cdf(drawn, path=folder / "jct_cdf.png", runs=lines)
    chosen = {name: ranked[name][0].timeline for name in _one_a_role(ranked)}
    utilisation_queue(chosen, path=folder / "utilisation_queue.png", runs=lines, of="window 0")
    runs = [outcome for found in ranked.values() for outcome in found]
    write_atomically(folder / "jobs.parquet", _jobs(runs).to_parquet(index=False))
    rows = [outcome.row for outcome in runs]
    tables = write_comparison(folder, rows, ours=ours, confidence=confidence, assumed=assumed)
    focus = _best(ranked) if ours is None else _fewest_agents(ranked, ours)
    # Of every key over the runs that have it, as in tables; NaN where none has.
    means = pd.DataFrame([outcome.row.metrics for outcome in ranked[focus]]).mean()
    write_metrics(folder, {str(key): float(mean) for key, mean in means.items()})
    return tables, focus


def write_rivals(
    folder: Path, outcomes: Sequence[Outcome], *, ours: str, part: str, confidence: float
) -> Group:
    """Write headline.csv and .md: ours against the best of each kind of rival; what to print."""
    rows = [outcome.row for found in _ranked(outcomes).values() for outcome in found]
    cells = headline_cells(rows, [], ours=ours, parts=("", part), confidence=confidence)
    title = f"{ours} against each kind of rival"
    return write_headline(folder, cells, title=title, confidence=confidence)


def write_evaluation_page(
    folder: Path,
    outcomes: Sequence[Outcome],
    record: Record,
    config: Mapping[str, Any],
    *,
    ours: str | None,
    seen: Sequence[Seen] = (),
) -> None:
    """Write report.html: tables, distributions, use, `seen` runs, the policy's learning curve."""
    ranked = _ranked(outcomes)
    write_comparison_page(
        folder,
        [outcome.row for found in ranked.values() for outcome in found],
        record,
        ours=ours,
        confidence=config["confidence"],
        whose={name: found[0].row.labels.scheduler for name, found in ranked.items()},
        jct_s={name: _pooled_jct_s(found) for name, found in ranked.items()},
        timelines={name: ranked[name][0].timeline for name in _one_a_role(ranked)},
        more=[
            *(section for each in seen for section in each.sections),
            *curve_of_checkpoint(config["checkpoint"]),
        ],
    )


def _seen(
    outcomes: Sequence[Outcome], tasks: Sequence[Task], ours: str | None, processes: int
) -> list[Seen]:
    """Window 0 of ours and its best rival, or of the best two, played again."""
    ranked = _ranked(outcomes)
    first = None if ours is None else _fewest_agents(ranked, ours)
    named = [(task_labels(task), task) for task in tasks if task.window == 0]
    task_of = {(labels.scheduler, labels.agents): task for labels, task in named}
    found = []
    for name in best_two(_roles(ranked), first):
        row = ranked[name][0].row
        play = partial(run_of, task_of[row.labels.scheduler, row.labels.agents])
        found.append(Again(f"{name}, window 0", row.labels.scheduler, play, row.metrics))
    return seen_again(found, processes=processes)


def _ranked(outcomes: Sequence[Outcome]) -> Ranked:
    """Runs by name (the scheduler's, and its number of agents if several), the best mean first.

    Who ran fewer windows than others is called so.
    """
    found: Ranked = {}
    ordered = sorted(outcomes, key=lambda outcome: outcome.row.labels.window)
    names = run_names([outcome.row.labels for outcome in ordered])
    for name, outcome in zip(names, ordered, strict=True):
        found.setdefault(name, []).append(outcome)
    most = max(map(len, found.values()))
    times_s = {name: [o.row.metrics["jct_mean_s"] for o in found[name]] for name in sorted(found)}
    return {with_windows(name, len(found[name]), most): found[name] for name in best_first(times_s)}


def _roles(ranked: Ranked) -> dict[str, str]:
    """Name -> role, best first."""
    return {name: found[0].row.labels.role for name, found in ranked.items()}


def _best(ranked: Ranked) -> str:
    """The best scheduler that could run in the setting; the best of all if there is none."""
    roles = _roles(ranked)
    return next((n for n, role in roles.items() if role not in NOT_A_RESULT), next(iter(roles)))


def _fewest_agents(ranked: Ranked, scheduler: str) -> str:
    """Name of the scheduler's runs with the fewest agents."""
    agents = {
        name: found[0].row.labels.agents
        for name, found in ranked.items()
        if found[0].row.labels.scheduler == scheduler
    }
    return min(agents, key=agents.__getitem__)


def _drawn(ranked: Ranked) -> list[str]:
    """Names in the distribution figure: those that must be there, then the best."""
    roles = _roles(ranked)
    must = [name for name, role in roles.items() if role in ALWAYS_DRAWN]
    rest = [name for name in roles if name not in must]
    done = {n for n, found in ranked.items() if any(o.row.metrics["jobs_finished"] for o in found)}
    return [name for name in [*must, *rest] if name in done][:MOST_CURVES]


def _one_a_role(ranked: Ranked) -> list[str]:
    """The best of each role that belongs over time; the best of all if there is none."""
    roles = _roles(ranked)
    best = [next((n for n, role in roles.items() if role == wanted), None)
            for wanted in FIRST_ROLES]  # fmt: skip
    return [name for name in best if name is not None] or list(roles)[:1]


def _pooled_jct_s(found: Sequence[Outcome]) -> FloatArray:
    """(n,) completion times of the measured, finished jobs of all windows."""
    pooled: FloatArray = pd.concat([o.jobs["jct_s"].dropna() for o in found]).to_numpy(dtype=float)
    return pooled


def _jobs(runs: Sequence[Outcome]) -> pd.DataFrame:
    """Measured jobs of all runs, a row a (scheduler, window, job)."""
    front = ["scheduler", "agents", "window"]
    parts = [o.jobs.assign(**{key: getattr(o.row.labels, key) for key in front}) for o in runs]
    whole = pd.concat(parts, ignore_index=True)
    return whole[[*front, *(name for name in whole.columns if name not in front)]]
