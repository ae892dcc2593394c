"""TopDRL against its baselines: `python scripts/reproduce.py experiment=topdrl_main`.

Trains what has no policy yet, plays every scheduler on the same windows of several seeds, and
compares throughput, JCT and communication cost. Finished policies and runs are kept.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from rich.console import Group
from rich.table import Table

from gpuyard.evaluation.task import Outcome, Task, outcome_of, task_labels
from gpuyard.experiment.experiment import Experiment, composition_of, opened
from gpuyard.launch.build import build, resolve
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.curves import write_curves
from gpuyard.reproduction.node import debug_overrides, last_of_each, reproduction_of
from gpuyard.reproduction.page_node import PAGE_FILE, page_tables
from gpuyard.reproduction.plan import Planned, cells_of, plan_of, with_policies
from gpuyard.reproduction.store import PARTS
from gpuyard.reproduction.work import run_missing
from gpuyard.training.topdrl_training import bars
from sim.errors import GpuYardError
from sim.jobs import JobTable
from sim.metrics.job_times import full_speed, spans, throughput
from sim.metrics.summary import summarise
from sim.metrics.timeline import Interval, mean_interval
from sim.physics.networks import YorkNetwork
from sim.report.atomic import csv_text, write_atomically
from sim.report.comparison import ComparisonRow, write_comparison_csv
from sim.report.league import LeagueRun
from sim.report.page_table import page_markdown
from sim.report.standings import BASELINES, paired_tests
from sim.report.table_text import markdown_table
from sim.run import Run
from sim.simulator import simulate

log = logging.getLogger(__name__)

CHOOSERS = ("experiment", "debug")
TRAINED, CHECKPOINT, DONE, POLICY = "trained", "checkpoint", "trained", "policy"
PICKER_KEYS = ("folder", "overrides", "quick")


def run(launch: Launch) -> None:
    """Train, play, compare.

    Raises:
        GpuYardError: the node is wrong, or a training or a run failed.
    """
    node, confidence = launch.config["reproduce"], launch.config["confidence"]
    tables = page_tables("reproduce.page", node.get("page"))
    if launch.config["fresh"]:
        shutil.rmtree(launch.folder / PARTS, ignore_errors=True)
    choices = HydraConfig.get().runtime.choices
    debug = choices["debug"]
    folders = {
        name: _policy(launch.folder / TRAINED / name, name, told, debug)
        for name, told in node["pickers"].items()
        if told is not None  # an experiment may do without one
    }
    planned = _planned(node, str(choices["experiment"]), debug, folders, launch.config)
    done = _played(planned, launch)
    write_curves(launch.folder, done)
    rows = [(planned.cell, row) for planned, row in done]
    report = write_report(
        launch.folder, rows, node, ours=str(launch.config["ours"]), confidence=confidence
    )
    runs = [LeagueRun(planned.cell, planned.workload, row) for planned, row in done]
    page = page_markdown(tables, runs, confidence=confidence)
    write_atomically(launch.folder / PAGE_FILE, page.encode())
    table_console().print(report)
    print(f"results in {launch.folder}")


def _policy(folder: Path, name: str, told: Mapping[str, Any], debug: str | None) -> str:
    """The policy folder of one picker, trained if there is none."""
    if set(told) != set(PICKER_KEYS):
        raise ConfigError(f"reproduce.pickers.{name} has {list(told)}; it needs {PICKER_KEYS}")
    if told["folder"] is not None:
        return str(told["folder"])
    if not (folder / DONE).is_file():
        from gpuyard.training.topdrl_training import train  # torch and ray

        folder.mkdir(parents=True, exist_ok=True)
        words = [*told["overrides"], *(_quick(told, debug) if debug else [])]
        if (folder / CHECKPOINT).is_dir():
            words.append(f"resume='{folder}'")
        log.info("training %s in %s", name, folder)
        train(resolve(compose("train_topdrl", words))[0], folder)
        shutil.rmtree(folder.parents[1] / PARTS, ignore_errors=True)  # of an earlier policy
    return str(folder / POLICY)


def _quick(told: Mapping[str, Any], debug: str) -> list[str]:
    """Training on the cluster and the few jobs of `debug`, all of them generated."""
    kept = ("topology", "++workload.num_jobs")
    words = [w for w in debug_overrides(debug) if w.partition("=")[0] in kept]
    return ["workload=topdrl_york", *words, "validation_windows=1", *told["quick"]]


def _planned(
    node: Mapping[str, Any],
    experiment: str,
    debug: str | None,
    folders: Mapping[str, str],
    config: Mapping[str, Any],
) -> list[Planned]:
    """Every run: seeds x cells x windows x schedulers."""
    found = reproduction_of({key: node[key] for key in ("title", "cells")}, experiment=experiment)
    words = [str(word) for word in HydraConfig.get().overrides.task]
    groups = [word for word in words if word.partition("=")[0].lstrip("+") in CHOOSERS]
    others = [word for word in words if word not in groups]
    most, missing = config["most_cells"], config["missing"]
    planned: list[Planned] = []
    for seed in node["seeds"]:
        later = last_of_each([*debug_overrides(debug), f"seed={seed}", *others])
        cells = cells_of(found, program="reproduce", base=groups, later=later)[:most]
        planned += plan_of(
            [with_policies(cell, folders, "scheduler.policy") for cell in cells], missing=missing
        )
    return planned


def _played(planned: Sequence[Planned], launch: Launch) -> list[tuple[Planned, ComparisonRow]]:
    """Every run and its row; those that are stored are not made again.

    Raises:
        GpuYardError: runs failed.
    """
    found, failures = run_missing(planned, launch.folder, jobs=launch.config["jobs"], play=_play)
    if failures:
        raise GpuYardError("\n".join([f"{len(failures)} runs failed; the first:", failures[0]]))
    return [
        (each, replace(row, labels=each.labelled(row.labels)))
        for each, row in zip(planned, found, strict=True)
        if row is not None
    ]


def _play(tasks: Sequence[Task]) -> list[Outcome]:
    """One scheduler on its windows, with York's counts among the metrics."""
    return [_played_alone(task) for task in tasks]


def _played_alone(task: Task) -> Outcome:
    setting = json.loads(task.setting)
    network = build(setting, "network")
    if not isinstance(network, YorkNetwork):
        raise ConfigError("this comparison counts what York's network model counts; network=york")
    experiment = opened(task.setting)
    told = {**json.loads(task.contender.composition), "belief": setting["belief"]}
    scheduler = composition_of(told, experiment.game.partitions)
    jobs = experiment.window(task.part, task.window)
    run = simulate(experiment.game.simulator(jobs), scheduler, experiment.seed, None)
    outcome = outcome_of(task_labels(task), run)
    row = replace(outcome.row, metrics=measures(experiment, jobs, run, network))
    return replace(outcome, row=row)


def measures(
    experiment: Experiment, jobs: JobTable, run: Run, network: YorkNetwork
) -> Mapping[str, float | int]:
    """The usual metrics, and before them throughput and communication cost.

    `throughput_tflops` is the mean from the first submission to the last, while jobs keep coming;
    `throughput_drained_tflops` that from the first submission to the last job's end.
    `placement_cost` is the mean over all jobs of the weights that their placement's tree adds up
    to, `placement_cost_ratio` the mean over the most compact ones.
    """
    game = experiment.game
    worth = full_speed(jobs, game.topology, game.physics) * network.unit_speed
    last_s, end_s = float(jobs.submit_s[-1]), float(np.nanmax(run.finish_s))
    servers, racks = spans(run)
    cost = network.cost(jobs.num_gpus, servers, racks)
    best = network.least_cost(jobs.num_gpus, game.topology)
    return {
        "throughput_tflops": throughput(run, worth, 0.0, last_s),
        "throughput_drained_tflops": throughput(run, worth, 0.0, end_s),
        "placement_cost": float(cost.mean()),
        "placement_cost_ratio": float((cost / best).mean()),
        "jct_all_mean_s": float(np.nanmean(run.finish_s - jobs.submit_s)),
        **summarise(run),
    }


SHOWN = {  # metric -> heading, format
    "throughput_tflops": ("throughput TFLOP/s", "{:.1f}"),
    "jct_all_mean_s": ("mean JCT s", "{:,.0f}"),
    "placement_cost_ratio": ("comm. cost / least", "{:.3f}"),
}
JUDGED = "throughput_tflops"
Rows = Mapping[str, Mapping[str, list[ComparisonRow]]]  # cell -> scheduler -> runs by unit


def write_report(
    folder: Path,
    found: Sequence[tuple[str, ComparisonRow]],
    node: Mapping[str, Any],
    *,
    ours: str,
    confidence: float,
) -> Group:
    """Write comparison.csv, tests.csv, throughput.md, figures; return the tables to be printed."""
    write_comparison_csv(folder / "comparison.csv", [row for _, row in found])
    rows = _by_cell(found)
    tests = [
        test
        for cell, of in rows.items()
        for test in paired_tests(cell, of, ours=ours, metric=JUDGED, confidence=confidence)
    ]
    write_atomically(folder / "tests.csv", _csv(tests).encode())
    for metric, (heading, _) in SHOWN.items():
        cells = {
            cell: {name: _interval(runs, metric, confidence) for name, runs in of.items()}
            for cell, of in rows.items()
        }
        path = folder / f"{metric.removesuffix('_tflops')}.png"
        bars(cells, ours=ours, what=heading, path=path)
    tables = [_table(cell, of, tests, confidence) for cell, of in rows.items()]
    note = _verdict(tests, str(node["claim"]), ours)
    text = "\n".join([f"# {node['title']}", "", *map(_lines, tables), note, ""])
    write_atomically(folder / "throughput.md", text.encode())
    return Group(*tables, note)


def _by_cell(found: Sequence[tuple[str, ComparisonRow]]) -> Rows:
    rows: dict[str, dict[str, list[ComparisonRow]]] = {}
    for cell, row in found:
        rows.setdefault(cell, {}).setdefault(row.labels.scheduler, []).append(row)
    return rows


def _interval(runs: Sequence[ComparisonRow], metric: str, confidence: float) -> Interval:
    return mean_interval([float(row.metrics[metric]) for row in runs], confidence)


def _table(
    cell: str,
    of: Mapping[str, list[ComparisonRow]],
    tests: Sequence[Mapping[str, Any]],
    confidence: float,
) -> Table:
    told = {test["against"]: test for test in tests if test["cell"] == cell}
    table = Table(title=cell, title_justify="left")
    for heading in ("scheduler", "role", *(heading for heading, _ in SHOWN.values())):
        table.add_column(heading)
    table.add_column("ours / its throughput")
    table.add_column("p (Holm)")
    for name, runs in of.items():
        cells = [
            _told(_interval(runs, metric, confidence), form) for metric, (_, form) in SHOWN.items()
        ]
        table.add_row(name, runs[0].labels.role, *cells, *_beside(told.get(name)))
    return table


def _told(found: Interval, form: str) -> str:
    return f"{form.format(found.centre)} [{form.format(found.low)}, {form.format(found.high)}]"


def _beside(test: Mapping[str, Any] | None) -> tuple[str, str]:
    if test is None:
        return "", ""
    p = test.get("p_holm")
    ratio = f"{test['ratio']:.3f} [{test['low']:.3f}, {test['high']:.3f}]"
    return ratio, "" if p is None else f"{p:.2g}"


def _verdict(tests: Sequence[Mapping[str, Any]], claim: str, ours: str) -> str:
    """The claim beside what came out, against the baselines only."""
    baselines = [test for test in tests if test["role"] == BASELINES]
    best = max(baselines, key=lambda test: test["ratio"])
    least = min(baselines, key=lambda test: test["ratio"])
    clear = sum(test["low"] > 1 and test["p_holm"] < 1 - 0.95 for test in baselines)
    return (
        f"Throughput of {ours}, claimed: {claim}. Here from {least['ratio'] - 1:+.1%} (against "
        f"{least['against']}, {least['cell']}) to {best['ratio'] - 1:+.1%} (against "
        f"{best['against']}, {best['cell']}); significantly higher in {clear} of "
        f"{len(baselines)} comparisons with baselines (paired t-test, Holm, 5 %)."
    )


def _csv(tests: Sequence[Mapping[str, Any]]) -> str:
    columns = ("cell", "against", "role", "pairs", "ratio", "low", "high", "p", "p_holm")
    return csv_text(columns, ([test.get(name) for name in columns] for test in tests))


def _lines(table: Table) -> str:
    """A rich table as markdown."""
    told = ([str(column.header), *map(str, column.cells)] for column in table.columns)
    cells = [*zip(*told, strict=True)]
    return "\n".join([f"## {table.title}", "", *markdown_table(cells[0], cells[1:]), ""])
