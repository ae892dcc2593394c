"""Plays windows one after the other while the truth drifts: `python scripts/drift_in_time.py`.

Window k is played under k + 1 steps of `interference=drifted`. A scheduler with an online belief
begins each window with the evidence of the windows before; beside it stands the same one that
begins each window anew, its name with `_anew` at the end.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig

from gpuyard.evaluation.task import setting_text
from gpuyard.experiment.experiment import Experiment, composition_of, labels_of, opened
from gpuyard.experiment.lineup import Contender, lineup_of, warm_up
from gpuyard.launch.build import check_confidence
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from interference.online import Evidence, OnlineScheduler
from sim.jobs import JobTable
from sim.metrics.summary import summarise
from sim.protocols import Scheduler
from sim.report.arms import arm_rows, arms_csv, arms_markdown
from sim.report.atomic import write_atomically
from sim.report.comparison import ComparisonRow, Labels, write_comparison_csv
from sim.report.league import LeagueRun
from sim.simulator import simulate

log = logging.getLogger(__name__)

RESULT_FILES = ("comparison.csv", "arms.csv", "arms.md")
REFERENCES = ("fixed", "oracle")  # arms that the others are divided by
ANEW = "_anew"


@dataclass
class Arm:
    """One contender on its way through the windows."""

    contender: Contender
    carries: bool  # keeps its evidence from window to window
    evidence: Evidence | None = None


@program("drift_in_time")
def main(cfg: DictConfig) -> None:
    """Play every arm of the line-up through the windows, write, print."""
    launch = start(cfg)
    config = launch.config
    for name in RESULT_FILES:
        (launch.folder / name).unlink(missing_ok=True)
    check_confidence(config)
    rows = list(_rows(config, _arms(lineup_of(config))))
    runs = [LeagueRun("drift from window to window", row.labels.workload, row) for row in rows]
    arms = arm_rows(runs, references=REFERENCES, confidence=config["confidence"])
    text = arms_markdown(arms, confidence=config["confidence"])
    write_comparison_csv(launch.folder / "comparison.csv", rows)
    write_atomically(launch.folder / "arms.csv", arms_csv(arms))
    write_atomically(launch.folder / "arms.md", text.encode())
    print(text)
    print(f"results in {launch.folder}")


def _arms(contenders: Sequence[Contender]) -> list[Arm]:
    """The contenders; those whose belief is updated twice.

    Raises:
        ConfigError: one of these has no name.
    """
    found = []
    for contender in contenders:
        found.append(Arm(contender, carries=True))
        if json.loads(contender.composition).get("belief", {}).get("update") is not None:
            if contender.name is None:
                raise ConfigError(f"{contender.place}: has an online belief and no name; add name:")
            anew = replace(contender, name=contender.name + ANEW)
            found.append(Arm(anew, carries=False))
    return found


def _rows(config: Mapping[str, Any], arms: Sequence[Arm]) -> Iterator[ComparisonRow]:
    """Window by window, since evidence goes from each to the next.

    Raises:
        ConfigError: `windows` is below 1, or the truth is none that drifts.
    """
    windows = config["windows"]
    if type(windows) is not int or windows < 1:
        raise ConfigError(f"windows is {windows!r}; it must be a whole number from 1")
    if "steps" not in config["interference"]:
        raise ConfigError("interference is a truth that stays; use interference=drifted")
    for window in range(windows):
        log.info("window %d of %d", window + 1, windows)
        moved = {**config, "interference": {**config["interference"], "steps": window + 1}}
        for arm in arms:
            yield _played(moved, arm, window)


def _played(config: Mapping[str, Any], arm: Arm, window: int) -> ComparisonRow:
    """One window of one arm; its evidence goes on."""
    setting = setting_text(config, arm.contender)
    experiment, jobs = opened(setting), _window(setting, str(config["part"]), window)
    scheduler = _scheduler(experiment, setting, arm)
    simulator = experiment.game.simulator(jobs)
    compiled = not simulator.python_decides(scheduler)
    warm_up(experiment.game, scheduler, compiled=compiled)
    run = simulate(simulator, scheduler, experiment.seed, None, compiled=compiled)
    if isinstance(scheduler, OnlineScheduler) and scheduler.evidence is not None:
        arm.evidence = replace(scheduler.evidence, at_s=0.0)  # of the next window's clock
    return ComparisonRow(_labels(experiment, scheduler, arm, window), summarise(run))


def _scheduler(experiment: Experiment, setting: str, arm: Arm) -> Scheduler:
    composition = {**json.loads(arm.contender.composition), "belief": json.loads(setting)["belief"]}
    scheduler = composition_of(composition, experiment.game.partitions)
    if isinstance(scheduler, OnlineScheduler) and arm.carries:
        return scheduler.continued(arm.evidence)
    return scheduler


def _labels(experiment: Experiment, scheduler: Scheduler, arm: Arm, window: int) -> Labels:
    labels = labels_of(experiment, scheduler, window=window, role=arm.contender.role)
    return replace(labels, scheduler=arm.contender.name or labels.scheduler)


@lru_cache(maxsize=8)
def _window(setting: str, part: str, index: int) -> JobTable:
    return opened(setting).window(part, index)
