"""The settings whose windows a tuning plays: one, or a mix of agent counts, loads, GPU types."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from launch_errors import ConfigError
from tuning_task import Trial, logs_of

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


def check_mix(config: Mapping[str, Any]) -> None:
    """Refuse a mix that cannot be played.

    Raises:
        ConfigError: naming key, value and rule.
    """
    if type(config["redraw"]) is not bool:
        raise ConfigError(f"redraw is {config['redraw']!r}; it must be true or false")
    check_cells(config["mix"])


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
            if type(cell[key]) is not int or cell[key] < 1:
                raise ConfigError(f"mix has {key}: {cell[key]!r}; use a whole number from 1")
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
