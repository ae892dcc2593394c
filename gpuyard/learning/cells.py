"""The windows that weights are tuned on, and one weighing of them on one window."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from joblib import cpu_count

from gpuyard.evaluation.experiment import opened
from gpuyard.launch.build import build, check_count
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.sweeps import in_processes, processes_of
from sim.jobs import JobTable
from sim.metrics.job_times import mean_jct_s
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.weights import (
    FIRST_AHEAD,
    FORWARD_FEATURES,
    LAYERS,
    START_FEATURES,
    SUSPEND,
    named,
)


@dataclass(frozen=True)
class Trial:
    """Weights and the windows they are to play; hashable texts and numbers."""

    setting: str  # JSON of the resolved configuration
    weights: tuple[float, ...]  # of starts, then of forwards
    part: str
    windows: tuple[int, ...]  # of the part


def scheduler_of(config: Mapping[str, Any], weights: Sequence[float] | None) -> LinearScore:
    """The scheduler of the configuration, with other weights where some are given.

    Raises:
        ConfigError: it is another scheduler.
    """
    section = dict(config["scheduler"])
    if weights is not None:
        x = np.array(weights)
        cut = len(START_FEATURES)
        section |= {"weights": named(x[:cut], x[cut:]), "weights_file": None}
    scheduler = build({"scheduler": section}, "scheduler")
    if not isinstance(scheduler, LinearScore):
        raise ConfigError("scheduler must be linear_score: its weights are what is tuned")
    return scheduler


def weights_from(scheduler: LinearScore) -> tuple[float, ...]:
    """The weights of `Trial`.

    Raises:
        ConfigError: the scores have layers, or there is one of suspensions.
    """
    groups = scheduler.weights
    for group in (LAYERS, SUSPEND):
        if group in groups:
            raise ConfigError(
                f"these weights have {group}, which scripts/learn.py learns; tune others"
            )
    return tuple([groups["start"][name] for name in START_FEATURES]
                 + [groups["forward"][name] for name in FORWARD_FEATURES])  # fmt: skip


def free_weights(look_ahead: bool) -> list[int]:
    """Places in the vector of weights that are tuned: all, or those that do not look ahead."""
    names = [("start", at) for at in range(len(START_FEATURES))]
    names += [("forward", at) for at in range(len(FORWARD_FEATURES))]
    return [i for i, (group, at) in enumerate(names) if look_ahead or at < FIRST_AHEAD[group]]


def log_jct(trial: Trial) -> list[float]:
    """Logarithms of the mean JCT in seconds, window by window."""
    experiment, config = opened(trial.setting), json.loads(trial.setting)
    scheduler = scheduler_of(config, trial.weights)
    logs = []
    for window in trial.windows:
        jobs = _window(trial.setting, trial.part, window)
        logs.append(float(np.log(mean_jct_s(unlogged(experiment.game.simulator(jobs), scheduler)))))
    return logs


def logs_of(trials: Sequence[Trial], jobs: int) -> Iterator[list[float]]:
    """`log_jct` of each trial, in their order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
    """
    processes = processes_of(jobs, cpu_count())
    yield from in_processes(log_jct, trials, processes, ordered=True)


@lru_cache(maxsize=64)
def _window(setting: str, part: str, index: int) -> JobTable:
    return opened(setting).window(part, index)


# What says how to search, not what is played.
OF_THE_SEARCH = (
    "generations", "population", "sigma", "time_budget_s", "validate_last", "jobs", "look_ahead",
    "resume", "name", "train_windows", "validation_windows", "redraw", "mix",
)  # fmt: skip
KEYS = {"agents", "load", "windows"}
OPTIONAL = {"gpu_type"}  # of all servers; what sharing costs depends on it
MANY = 1_000_000  # windows of the training part that may be drawn


@dataclass(frozen=True)
class Cell:
    """A setting, as JSON of its configuration, and its windows."""

    setting: str
    windows: tuple[int, ...]


def check_cells(mix: object) -> None:
    """Refuse a list of settings that is none; None is no list and fine.

    Raises:
        ConfigError: naming key, value and rule.
    """
    if mix is None:
        return
    if not isinstance(mix, list) or not mix:
        raise ConfigError(f"mix is {mix!r}; give a list of {{agents, load, windows}}, or null")
    for cell in mix:
        if not isinstance(cell, Mapping) or set(cell) - OPTIONAL != KEYS:
            raise ConfigError(
                f"mix holds {cell!r}; give agents, load and windows, and gpu_type if you like"
            )
        for key in ("agents", "windows"):
            check_count(f"{key} in mix", cell[key])
        load = cell["load"]
        if type(load) not in {int, float} or not 0 < load < np.inf:
            raise ConfigError(f"mix has load: {load!r}; it must be a number above 0")
        gpu_type = cell.get("gpu_type", "")
        if type(gpu_type) is not str:
            raise ConfigError(f"mix has gpu_type: {gpu_type!r}; it must be a name, as p100")


def training_cells(config: Mapping[str, Any], generation: int) -> list[Cell]:
    """What all candidates of a generation (from 1) play."""
    rng = np.random.default_rng([config["seed"], generation])
    return [
        Cell(setting, tuple(rng.integers(MANY, size=windows).tolist())
             if config["redraw"] else tuple(range(windows)))
        for setting, windows in _settings(config, config["train_jobs"], config["train_windows"])
    ]  # fmt: skip


def validation_cells(config: Mapping[str, Any]) -> list[Cell]:
    """The first validation windows of every setting, as long as the workload says."""
    windows = tuple(range(config["validation_windows"]))
    return [Cell(setting, windows) for setting, _ in _settings(config, None, 0)]


def _settings(
    config: Mapping[str, Any], num_jobs: int | None, windows: int
) -> Iterator[tuple[str, int]]:
    plain = {key: value for key, value in config.items() if key not in OF_THE_SEARCH}
    if num_jobs is not None:
        plain["workload"] = plain["workload"] | {"num_jobs": num_jobs}
    if config["mix"] is None:
        yield json.dumps(plain), windows
        return
    for cell in config["mix"]:
        yield json.dumps(in_cell(plain, cell)), cell["windows"]


def in_cell(plain: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in one setting of a mix."""
    agents = plain["agents"] | {"count": cell["agents"]}
    workload = plain["workload"] | {"load": cell["load"]}
    setting = {**plain, "agents": agents, "workload": workload}
    if "gpu_type" in cell:  # durations are run times on it, so that the load is the same
        topology = plain["topology"] | {"gpu_types": [cell["gpu_type"]]}
        setting |= {"topology": topology, "reference_gpu": cell["gpu_type"]}
    return setting


def play_cells(
    candidates: Sequence[Sequence[float]], cells: Sequence[Cell], part: str, jobs: int
) -> Iterator[list[float]]:
    """ln(mean JCT) of every candidate, window by window, cell after cell; `jobs` processes."""
    trials = [Trial(c.setting, tuple(map(float, x)), part, c.windows)
              for x in candidates for c in cells]  # fmt: skip
    logs = logs_of(trials, jobs)
    for _ in candidates:
        yield [value for each in islice(logs, len(cells)) for value in each]
