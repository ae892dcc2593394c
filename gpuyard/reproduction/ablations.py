"""The agents without a part each: `python scripts/reproduce.py experiment=marl_ablations`.

Trains every arm from every seed that has no policy yet, plays all on the same windows, and compares
with the arm that lacks nothing. Finished policies and runs are kept.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpuyard.evaluation.lineup import entries_of
from gpuyard.launch.build import check_keys, resolve, yaml_text
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.ahead import check_words
from gpuyard.reproduction.node import Asked, CellSpec, Reproduction, asked, last_of_each, write_page
from gpuyard.reproduction.planned import Planned, cells_of, planned_of
from gpuyard.reproduction.reproduce import Prepare, check_ahead
from gpuyard.reproduction.runs import (
    PARTS,
    assumed_in,
    begin_training,
    forget_stored,
    run_all,
    write_drawn,
    write_frame,
)
from gpuyard.training.setting import check_all
from sim.arrays import FloatArray
from sim.errors import override
from sim.files import ComparisonRow, write_comparison_csv
from sim.report.arms import SeedArm, seed_arms
from sim.report.figures import heading, line_look, new_figure, save_png, tidy
from sim.report.job_times import percent
from sim.report.table_text import TableText, ratio_text, rich_tables, write_markdown
from sim.times import HOUR_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group


log = logging.getLogger(__name__)

TRAINED, POLICY, DONE = "trained", "policy", "trained"
NODE_KEYS = ("program", "title", "seeds", "whole", "training", "quick", "arms")
ARM_KEYS = ("train", "play")


@dataclass(frozen=True)
class Arm:
    """One way to train and to play."""

    name: str
    train: tuple[str, ...]  # overrides of `conf/train.yaml`
    play: tuple[str, ...]  # overrides of the comparison, for this arm alone


@dataclass(frozen=True)
class Trained:
    """One policy."""

    arm: str
    seed: int
    folder: Path  # of the training

    @property
    def name(self) -> str:
        """In results."""
        return f"{self.arm} #{self.seed}"


def run(launch: Launch) -> None:
    """Train, play, compare; GpuYardError: the node is wrong, or a training or a run failed."""
    node = launch.config["reproduce"]
    arms = _arms(node)
    words = asked()
    seeds = node["seeds"][:1] if words.debug else node["seeds"]
    trained = [
        Trained(arm.name, seed, launch.folder / TRAINED / f"{arm.name}_{seed}")
        for seed in seeds
        for arm in arms
    ]
    planning = partial(_planned, launch, arms, trained, words)
    check_ahead(planning, [each.name for each in trained], launch.config["ours"])
    training = words.of_training(node["training"], node["quick"])
    own = {arm.name: last_of_each([*training, *arm.train]) for arm in arms}
    check_words(launch, "train", {f"reproduce.arms.{arm}": own[arm] for arm in own})
    launch.begin()
    forget_stored(launch, PARTS)
    for each in trained:
        _train(launch, each, own[each.arm])
    planned = planning(lambda cell: cell)
    launch.begin(assumed=assumed_in(planned))  # again: which policies play is known only now
    rows = run_all(planned, launch.folder, jobs=launch.config["jobs"])
    labelled = [_named(run, row) for run, row in zip(planned, rows, strict=True)]
    write_drawn(launch, zip(planned, labelled, strict=True))
    report = write_report(
        launch.folder, labelled, trained, title=str(node["title"]), whole=str(node["whole"]),
        confidence=launch.config["confidence"],
    )  # fmt: skip
    table_console().print(report)
    print(f"results in {launch.folder}")


def _arms(node: Mapping[str, Any]) -> list[Arm]:
    """The arms of the node `reproduce`, which is checked."""
    check_keys("reproduce", node, NODE_KEYS, needed=NODE_KEYS)
    arms = {name: arm for name, arm in node["arms"].items() if arm is not None}
    for name, arm in arms.items():
        check_keys(f"reproduce.arms.{name}", arm, ARM_KEYS, needed=ARM_KEYS)
    if node["whole"] not in arms:
        raise ConfigError(f"reproduce.whole is {node['whole']!r}; the arms are {', '.join(arms)}")
    return [Arm(name, tuple(arm["train"]), tuple(arm["play"])) for name, arm in arms.items()]


def _train(launch: Launch, policy: Trained, words: Sequence[str]) -> None:
    """Train the policy of one arm and seed if there is none."""
    folder, seed = policy.folder, policy.seed
    overrides = last_of_each([*words, f"seed={seed}", "resume=auto"])
    begin_training(folder, overrides)
    if not (folder / DONE).is_file():
        cfg = composed_of("train", overrides)
        config, text = resolve(cfg), yaml_text(cfg)
        record = replace(launch.record, overrides=tuple(overrides), seed=seed, config_yaml=text)
        one = Launch(folder=folder, config=config, record=record)
        check_all(one)
        from gpuyard.training.session import train  # torch and ray

        log.info("training %s from seed %d in %s", policy.arm, seed, folder)
        train(one)
        (folder / DONE).touch()


def _planned(
    launch: Launch, arms: Sequence[Arm], trained: Sequence[Trained], words: Asked, prepared: Prepare
) -> list[Planned]:
    """Every run: a cell an arm, where arms that are played alike share one."""
    number = {arm.name: place for place, arm in enumerate(arms)}
    specs = [CellSpec(number[arm.name], arm.play, arm.name, None) for arm in arms]
    found = Reproduction(str(launch.config["reproduce"]["title"]), (), tuple(specs), None)
    cells = cells_of(found, words)
    entries, whole = [*entries_of(launch.config)], launch.config["reproduce"]["whole"]
    for each in trained:
        entries.append({
            "role": "ours" if each.arm == whole else "ablation",
            "name": each.name,
            "overrides": ["scheduler=marl", override("++checkpoint", each.folder / POLICY)],
            "cells": [number[each.arm]],
        })  # fmt: skip
    whole_cells = [prepared(cell.entering(entries)) for cell in cells]
    return planned_of(whole_cells, missing=launch.config["missing"])


def _named(run: Planned, row: ComparisonRow) -> ComparisonRow:
    """The row under the name that its entry has now."""
    name = run.task.contender.name
    return row if name is None else replace(row, labels=replace(row.labels, scheduler=name))


METRIC = "jct_mean_s"


def write_report(
    folder: Path,
    rows: Sequence[ComparisonRow],
    trained: Sequence[Trained],
    *,
    title: str,
    whole: str,
    confidence: float,
) -> "Group":
    """Write comparison.csv, ablations.csv and .md, learning_curves.png; return what is printed."""
    write_comparison_csv(folder / "comparison.csv", rows)
    arms = seed_arms(_by_arm(rows, trained), whole=whole, confidence=confidence)
    write_frame(folder / "ablations.csv", [_numbers(each) for each in arms])
    text = _text(arms, whole, confidence)
    write_markdown(folder / "ablations.md", text, first=f"# {title}\n")
    write_page(folder, text)
    curves_figure(_curves(trained), folder / "learning_curves.png")
    return rich_tables(text)


def _by_arm(rows: Sequence[ComparisonRow], trained: Sequence[Trained]) -> dict[str, FloatArray]:
    """(seeds, windows) mean JCTs of every arm, then of every scheduler not trained here."""
    by_window: dict[str, dict[int, float]] = {}
    for row in rows:
        found = by_window.setdefault(row.labels.scheduler, {})
        found[int(row.labels.window or 0)] = float(row.metrics[METRIC])
    names: dict[str, list[str]] = {}
    for each in trained:
        names.setdefault(each.arm, []).append(each.name)
    ours = {name for arm in names.values() for name in arm}
    names |= {name: [name] for name in by_window if name not in ours}
    return {
        arm: np.array([[by_window[name][w] for w in sorted(by_window[name])] for name in of_arm])
        for arm, of_arm in names.items()
    }


def _numbers(arm: SeedArm) -> dict[str, Any]:
    """A row of ablations.csv."""
    ratio = arm.ratio
    return {
        "arm": arm.arm, "seeds": arm.seeds, "windows": ratio.count,
        "mean_jct_h": arm.jct_s / HOUR_S, "ratio": ratio.centre, "low": ratio.low,
        "high": ratio.high, "ratio_by_seed": _by_seed(arm),
    }  # fmt: skip


def _by_seed(arm: SeedArm) -> str:
    return " ".join(f"{ratio:.3f}" for ratio in arm.by_seed)


def _text(arms: Sequence[SeedArm], whole: str, confidence: float) -> TableText:
    headers = (
        "arm",
        "mean JCT [h]",
        f"over {whole} [{percent(confidence)} over windows]",
        "by seed",
    )
    rows = []
    for each in arms:
        shown = ("", "") if each.arm == whole else (ratio_text(each.ratio), _by_seed(each))
        rows.append((each.arm, f"{each.jct_s / HOUR_S:.2f}", *shown))
    return TableText(headers, (("Mean JCT of each arm over the whole", tuple(rows)),), "")


Curve = tuple[FloatArray, FloatArray]  # (n,) agent steps, (n,) mean JCT on validation windows, s


def _curves(trained: Sequence[Trained]) -> dict[str, list[Curve]]:
    """The learning curves of every arm, one a seed."""
    found: dict[str, list[Curve]] = {}
    for each in trained:
        frame = pd.read_csv(each.folder / "learning_curve.csv")
        judged = frame[frame["eval_jct_mean_s"].notna()]
        steps, jct_s = (
            judged[name].fillna(0.0).to_numpy(float) for name in ("agent_steps", "eval_jct_mean_s")
        )
        found.setdefault(each.arm, []).append((steps, jct_s))
    return found


def curves_figure(curves: Mapping[str, Sequence[Curve]], path: Path) -> None:
    """Mean JCT on validation windows by agent steps: a line an arm, the mean over its seeds.

    The legend is in the order in which the lines end.
    """
    figure = new_figure(9.0, 5.0)
    axes: Axes = figure.subplots()
    for place, (arm, seeds) in enumerate(curves.items()):
        points = min(len(steps) for steps, _ in seeds)
        steps = np.mean([steps[:points] for steps, _ in seeds], axis=0)
        logs = np.mean([np.log(jct_s[:points] / HOUR_S) for _, jct_s in seeds], axis=0)
        axes.plot(steps / 1000.0, np.exp(logs), **line_look(place), marker=".", label=arm)
    axes.set_yscale("log")
    for tell in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        tell("{x:g}")
    ends = sorted(axes.lines, key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    axes.set_xlabel("agent steps of PPO, thousands")
    axes.set_ylabel("mean JCT on validation windows [h]")
    axes.legend(handles=ends, fontsize=8.5, frameon=False, loc="center left",
                bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    heading(axes, "Learning without a part: lower is better")
    tidy(axes, grid="y")
    save_png(figure, path)
