"""TopDRL against its baselines: `python scripts/reproduce.py experiment=topdrl_main`.

Trains what has no policy yet, plays every scheduler on the same windows of several seeds, and
compares throughput, JCT and communication cost. Finished policies and runs are kept.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.evaluation.experiment import opened
from gpuyard.evaluation.task import Outcome, Task, in_time, outcome_of, run_of, task_labels
from gpuyard.launch.build import build, resolve
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.ahead import check_words, policies_of, untrained
from gpuyard.reproduction.node import (
    PAGE_FILE,
    Asked,
    asked,
    debug_overrides,
    key_of,
    page_tables,
    reproduction_of,
)
from gpuyard.reproduction.planned import Planned, cells_of, planned_of, with_policies
from gpuyard.reproduction.reproduce import Prepare, check_ahead, check_page
from gpuyard.reproduction.runs import (
    PARTS,
    assumed_in,
    begin_training,
    forget_stored,
    run_all,
    write_drawn,
    write_frame,
)
from gpuyard.training.topdrl_training import bars
from marl.env.world import World
from sim.errors import override
from sim.files import ComparisonRow, write_atomically, write_comparison_csv
from sim.physics.networks import YorkNetwork
from sim.report.job_times import Interval, full_speed, spans, throughput
from sim.report.league import LeagueRun
from sim.report.page_table import page_markdown
from sim.report.significance import correct_for_many, paired_tests
from sim.report.standings import BASELINES, units_of
from sim.report.summary import summarise
from sim.report.table_text import TableText, ratio_text, rich_tables, write_markdown
from sim.run import Run

log = logging.getLogger(__name__)

LEVEL = 0.05  # of the tests that count as significant
TRAINED, CHECKPOINT, DONE, POLICY = "trained", "checkpoint", "trained", "policy"
SMALL = ("topology", "workload.num_jobs")  # what trainings take of `debug`


def run(launch: Launch) -> None:
    """Train, play, compare; GpuYardError: the node is wrong, or a training or a run failed."""
    node, confidence = launch.config["reproduce"], launch.config["confidence"]
    tables = page_tables("reproduce.page", node.get("page"))
    words, pickers = asked(), node["pickers"] or {}
    planning = partial(_planned, node, words, launch.config)
    names = [name for name, each in pickers.items() if each is not None]
    ours = check_ahead(planning, names, launch.config["ours"])
    waiting = untrained("pickers", pickers).items()
    check_words(launch, "train_topdrl", {place: _words(each, words) for place, each in waiting})
    launch.begin((PAGE_FILE,))
    forget_stored(launch, PARTS)
    folders = policies_of(
        "pickers", pickers, lambda name, entry: _policy(launch, name, entry, words)
    )
    planned = planning(lambda cell: with_policies(cell, folders, "scheduler.policy"))
    launch.begin(assumed=assumed_in(planned))  # again: which policies play is known only now
    rows = run_all(planned, launch.folder, jobs=launch.config["jobs"], play=_play)
    done = [(each, replace(row, labels=each.labelled(row.labels)))
            for each, row in zip(planned, rows, strict=True)]  # fmt: skip
    write_drawn(launch, done)
    text = write_report(
        launch.folder, [(each.cell, row) for each, row in done], node,
        ours=str(ours), confidence=confidence,
    )  # fmt: skip
    runs = [LeagueRun(each.cell, each.workload, row) for each, row in done]
    page = page_markdown(tables, runs, confidence=confidence)
    write_atomically(launch.folder / PAGE_FILE, page.encode())
    table_console().print(rich_tables(text))
    print(f"results in {launch.folder}")


def _policy(launch: Launch, name: str, entry: Mapping[str, Any], words: Asked) -> Path:
    """The policy folder of one picker, trained if there is none."""
    folder, overrides = launch.folder / TRAINED / name, _words(entry, words)
    begin_training(folder, overrides)
    if not (folder / DONE).is_file():
        from gpuyard.training.topdrl_training import train  # torch and ray

        if (folder / CHECKPOINT).is_dir():
            overrides.append(override("resume", folder))
        log.info("training %s in %s", name, folder)
        train(resolve(composed_of("train_topdrl", overrides)), folder)
        shutil.rmtree(launch.folder / PARTS, ignore_errors=True)  # of an earlier policy
    return folder / POLICY


def _words(entry: Mapping[str, Any], words: Asked) -> list[str]:
    """Overrides of a picker's training."""
    if words.debug is None:
        return [*entry["overrides"]]
    # on its cluster and few jobs, all of them generated
    small = [w for w in debug_overrides(words.debug) if key_of(w) in SMALL]
    more = ["workload=topdrl_york", *small, "validation_windows=1", *entry["quick"]]
    return [*entry["overrides"], *more]


def _planned(
    node: Mapping[str, Any], words: Asked, config: Mapping[str, Any], prepared: Prepare
) -> list[Planned]:
    """Every run: seeds x cells x windows x schedulers."""
    plain = {key: node[key] for key in ("title", "cells")}
    found = reproduction_of(plain, experiment=words.experiment)
    planned: list[Planned] = []
    for seed in node["seeds"]:
        cells = cells_of(found, words, f"seed={seed}")[: config["most_cells"]]
        planned += planned_of(list(map(prepared, cells)), missing=config["missing"])
    if config["into"] is not None:
        check_page(page_tables("reproduce.page", node.get("page")), planned)
    return planned


def _play(tasks: Sequence[Task]) -> list[Outcome]:
    """One scheduler on its windows, with York's counts among the metrics."""
    return [_played_alone(task) for task in tasks]


def _played_alone(task: Task) -> Outcome:
    network = build(json.loads(task.setting), "network")
    if not isinstance(network, YorkNetwork):
        raise ConfigError("this comparison counts what York's network model counts; network=york")
    run = run_of(task)
    outcome = outcome_of(in_time(task_labels(task), task), run)
    row = replace(outcome.row, metrics=measures(opened(task.setting).world, run, network))
    return replace(outcome, row=row)


def measures(world: World, run: Run, network: YorkNetwork) -> Mapping[str, float | int]:
    """The usual metrics, and before them throughput and communication cost.

    `throughput_tflops` is the mean from the first submission to the last, while jobs keep coming;
    `throughput_drained_tflops` that from the first submission to the last job's end.
    `placement_cost` is the mean over all jobs of the weights that their placement's tree adds up
    to, `placement_cost_ratio` the mean over the most compact ones.
    """
    jobs = run.jobs
    worth = full_speed(jobs, world.topology, world.physics) * network.unit_speed
    last_s, end_s = float(jobs.submit_s[-1]), float(np.nanmax(run.finish_s))
    servers, racks = spans(run)
    cost = network.cost(jobs.num_gpus, servers, racks)
    best = network.least_cost(jobs.num_gpus, world.topology)
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
TEST_COLUMNS = ("cell", "against", "role", "pairs", "ratio", "low", "high", "p", "p_holm")


def write_report(
    folder: Path,
    found: Sequence[tuple[str, ComparisonRow]],
    node: Mapping[str, Any],
    *,
    ours: str,
    confidence: float,
) -> TableText:
    """Write comparison.csv, tests.csv, throughput.md, figures; return the tables."""
    write_comparison_csv(folder / "comparison.csv", [row for _, row in found])
    rows: dict[str, dict[str, list[ComparisonRow]]] = {}  # cell -> scheduler -> runs by unit
    for cell, row in found:
        rows.setdefault(cell, {}).setdefault(row.labels.scheduler, []).append(row)
    tests = [
        test
        for cell, of in rows.items()
        for test in paired_tests(cell, of, ours=ours, metric=JUDGED, confidence=confidence)
    ]
    correct_for_many([test for test in tests if test["role"] == BASELINES])
    write_frame(folder / "tests.csv", tests, TEST_COLUMNS)
    for metric, (heading, _) in SHOWN.items():
        cells = {
            cell: {name: _interval(runs, metric, confidence) for name, runs in of.items()}
            for cell, of in rows.items()
        }
        path = folder / f"{metric.removesuffix('_tflops')}.png"
        bars(cells, ours=ours, what=heading, path=path)
    headers = ("scheduler", "role", *(heading for heading, _ in SHOWN.values()),
               "ours / its throughput", "p (Holm)")  # fmt: skip
    blocks = tuple((cell, _rows(cell, of, tests, confidence)) for cell, of in rows.items())
    text = TableText(headers, blocks, _verdict(tests, str(node["claim"]), ours))
    write_markdown(folder / "throughput.md", text, first=f"# {node['title']}\n")
    return text


def _interval(runs: Sequence[ComparisonRow], metric: str, confidence: float) -> Interval:
    units = units_of(runs, confidence)
    return units.mean(units.values(runs, metric))


def _rows(
    cell: str,
    of: Mapping[str, list[ComparisonRow]],
    tests: Sequence[Mapping[str, Any]],
    confidence: float,
) -> tuple[tuple[str, ...], ...]:
    """A row of texts a scheduler."""
    tested = {test["against"]: test for test in tests if test["cell"] == cell}
    return tuple(
        (name, runs[0].labels.role,
         *(_text(_interval(runs, metric, confidence), form) for metric, (_, form) in SHOWN.items()),
         *_beside(tested.get(name)))
        for name, runs in of.items()
    )  # fmt: skip


def _text(found: Interval, form: str) -> str:
    centre, *ends = map(form.format, found.numbers)
    return centre if np.isnan(found.low) else f"{centre} [{', '.join(ends)}]"


def _beside(test: Mapping[str, Any] | None) -> tuple[str, str]:
    if test is None:
        return "", ""
    p = test.get("p_holm")
    ratio = Interval(test["ratio"], test["low"], test["high"], test["pairs"])
    return ratio_text(ratio), "" if p is None else f"{p:.2g}"


def _verdict(tests: Sequence[Mapping[str, Any]], claim: str, ours: str) -> str:
    """The claim beside what came out, against the baselines only."""
    baselines = [test for test in tests if test["role"] == BASELINES]
    best = max(baselines, key=lambda test: test["ratio"])
    least = min(baselines, key=lambda test: test["ratio"])
    clear = sum(test["low"] > 1 and test["p_holm"] < LEVEL for test in baselines)
    return (
        f"Throughput of {ours}, claimed: {claim}. Here from {least['ratio'] - 1:+.1%} (against "
        f"{least['against']}, {least['cell']}) to {best['ratio'] - 1:+.1%} (against "
        f"{best['against']}, {best['cell']}); significantly higher in {clear} of "
        f"{len(baselines)} comparisons with baselines (paired t-test, Holm over all, {LEVEL:.0%})."
    )
