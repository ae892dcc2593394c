"""The agents without a part each: `python scripts/reproduce.py experiment=marl_ablations`.

Trains every arm from every seed that has no policy yet, plays all on the same windows, and compares
with the arm that lacks nothing. Finished policies and runs are kept.
"""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig

from gpuyard.launch.build import build, check_training, resolve
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.ablation_report import Trained, write_report
from gpuyard.reproduction.node import CellSpec, Reproduction, debug_overrides, last_of_each
from gpuyard.reproduction.plan import Cell, Planned, cells_of, folder_override, plan_of
from gpuyard.reproduction.store import NOT_OF_A_RUN, PARTS
from gpuyard.reproduction.work import run_missing
from sim.errors import GpuYardError
from sim.report.comparison import ComparisonRow

log = logging.getLogger(__name__)

CHOOSERS = ("experiment", "debug")
TRAINED, POLICY, DONE = "trained", "policy", "trained"
NODE_KEYS = ("program", "title", "seeds", "whole", "training", "quick", "arms")
ARM_KEYS = ("train", "play")


@dataclass(frozen=True)
class Arm:
    """One way to train and to play."""

    name: str
    train: tuple[str, ...]  # overrides of `conf/train.yaml`
    play: tuple[str, ...]  # overrides of the comparison, for this arm alone


def run(launch: Launch) -> None:
    """Train, play, compare.

    Raises:
        GpuYardError: the node is wrong, or a training or a run failed.
    """
    node = launch.config["reproduce"]
    arms = _arms(node)
    if launch.config["fresh"]:
        shutil.rmtree(launch.folder / PARTS, ignore_errors=True)
    debug = HydraConfig.get().runtime.choices["debug"]
    words = _words()
    trained = [
        _trained(launch, arm, seed, [*_training_words(node, words, debug), *arm.train])
        for seed in (node["seeds"][:1] if debug else node["seeds"])
        for arm in arms
    ]
    planned = _planned(launch, arms, trained, words, debug)
    found, failures = run_missing(planned, launch.folder, jobs=launch.config["jobs"])
    if failures:
        raise GpuYardError("\n".join([f"{len(failures)} runs failed; the first:", failures[0]]))
    rows = [row for row in found if row is not None]
    labelled = [_named(run, row) for run, row in zip(planned, rows, strict=True)]
    report = write_report(
        launch.folder, labelled, trained, title=str(node["title"]), whole=str(node["whole"]),
        confidence=launch.config["confidence"],
    )  # fmt: skip
    table_console().print(report)
    print(f"results in {launch.folder}")


def _arms(node: Mapping[str, Any]) -> list[Arm]:
    """The arms of the node `reproduce`.

    Raises:
        ConfigError: a key is missing or unknown, or nothing is the whole.
    """
    if set(node) != set(NODE_KEYS):
        raise ConfigError(f"reproduce has {', '.join(node)}; it needs {', '.join(NODE_KEYS)}")
    told = {name: arm for name, arm in node["arms"].items() if arm is not None}
    for name, arm in told.items():
        if set(arm) != set(ARM_KEYS):
            raise ConfigError(f"reproduce.arms.{name} has {list(arm)}; it needs {list(ARM_KEYS)}")
    if node["whole"] not in told:
        raise ConfigError(f"reproduce.whole is {node['whole']!r}; the arms are {', '.join(told)}")
    return [Arm(name, tuple(arm["train"]), tuple(arm["play"])) for name, arm in told.items()]


def _words() -> list[str]:
    """What the command line sets besides experiment and debug."""
    words = [str(word) for word in HydraConfig.get().overrides.task]
    return [word for word in words if _key(word) not in CHOOSERS]


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+")


def _training_words(node: Mapping[str, Any], words: Sequence[str], debug: str | None) -> list[str]:
    """Overrides of all trainings: the command line's choice of cluster, jobs and physics too."""
    kept = ("topology", "workload.num_jobs", "workload.max_gang")
    small = [word for word in debug_overrides(debug) if _key(word) in kept]
    others = ("reproduce", "hydra", *NOT_OF_A_RUN)
    shared = [word for word in words if _key(word).split(".")[0] not in others]
    return [*node["training"], *small, *(node["quick"] if debug else []), *shared]


def _trained(launch: Launch, arm: Arm, seed: int, words: Sequence[str]) -> Trained:
    """The policy of one arm and seed, trained if there is none."""
    folder = launch.folder / TRAINED / f"{arm.name}_{seed}"
    if not (folder / DONE).is_file():
        overrides = last_of_each([*words, f"seed={seed}", "resume=auto"])
        config, text = resolve(compose("train", overrides))
        check_training(config)
        os.environ.update(build(config, "ray").environment())
        from gpuyard.training.session import train  # torch and ray

        folder.mkdir(parents=True, exist_ok=True)
        log.info("training %s from seed %d in %s", arm.name, seed, folder)
        record = replace(launch.record, overrides=tuple(overrides), seed=seed, config_yaml=text)
        train(Launch(folder=folder, config=config, record=record))
        (folder / DONE).touch()
    return Trained(arm.name, seed, folder)


def _planned(
    launch: Launch,
    arms: Sequence[Arm],
    trained: Sequence[Trained],
    words: Sequence[str],
    debug: str | None,
) -> list[Planned]:
    """Every run: a cell an arm, where arms that are played alike share one."""
    number = {arm.name: place for place, arm in enumerate(arms)}
    specs = [CellSpec(number[arm.name], arm.play, arm.name, None) for arm in arms]
    found = Reproduction(str(launch.config["reproduce"]["title"]), (), tuple(specs), None)
    cells = cells_of(
        found,
        program="reproduce",
        base=[f"experiment={HydraConfig.get().runtime.choices['experiment']}"],
        later=[*debug_overrides(debug), *words],
    )
    entries = [
        *launch.config["lineup"]["entries"],
        *(_entry(each, number[each.arm], launch.config["reproduce"]["whole"]) for each in trained),
    ]
    return plan_of([_with(cell, entries) for cell in cells], missing=launch.config["missing"])


def _entry(trained: Trained, cell: int, whole: str) -> dict[str, Any]:
    """A policy as an entry of a line-up."""
    return {
        "role": "ours" if trained.arm == whole else "ablation",
        "name": trained.name,
        "overrides": ["scheduler=marl", folder_override("++checkpoint", trained.folder / POLICY)],
        "cells": [cell],
    }


def _with(cell: Cell, entries: Sequence[Mapping[str, Any]]) -> Cell:
    return replace(cell, config={**cell.config, "lineup": {"entries": list(entries)}})


def _named(run: Planned, row: ComparisonRow) -> ComparisonRow:
    """The row under the name that its entry has now."""
    name = run.task.contender.name
    return row if name is None else replace(row, labels=replace(row.labels, scheduler=name))
