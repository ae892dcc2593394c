"""From an experiment to the runs it takes: cells, composed and told apart, times schedulers."""

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluate_task import Task, setting_text, task_labels
from hydra import compose
from launch_build import resolve
from launch_errors import ConfigError
from reproduce_lineup import Entrant, entrants_of
from reproduce_node import CellSpec, Reproduction, last_of_each
from reproduce_store import part_name, run_config

from sim.report.labels import Labels

log = logging.getLogger(__name__)

OWN_LABELS = ("topology", "workload", "workload.load", "agents.count", "seed")


@dataclass(frozen=True)
class Cell:
    """One cell, composed; cells that turned out equal (`debug`) are one with several numbers."""

    name: str  # in results
    numbers: frozenset[int]
    config: dict[str, Any]  # resolved
    suffix: str  # of the workload's name, where labels alone would not tell cells apart


@dataclass(frozen=True)
class Planned:
    """One run to be made, or made before."""

    cell: str
    workload: str  # without the cell's suffix
    suffix: str
    entry: int  # of the line-up
    task: Task
    part: str  # name of its file

    def labelled(self, labels: Labels) -> Labels:
        """Labels in results: the cell's suffix is part of the workload's name."""
        return replace(labels, workload=self.workload + self.suffix)


def cells_of(
    found: Reproduction, *, program: str, base: Sequence[str], later: Sequence[str]
) -> list[Cell]:
    """Compose every cell with the overrides before (`base`) and after (`later`) its own.

    Cells whose file is not there are left out, and logged.

    Raises:
        ConfigError: no cell is left, or one cannot be composed.
    """
    specs = [spec for spec in found.cells if _there(spec)]
    configs = [_composed(program, spec, base, later) for spec in specs]
    together: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        key = json.dumps([run_config(config), config["part"], config["lineup"], config["windows"]])
        together.setdefault(key, []).append(place)
    if not together:
        raise ConfigError("no cell is left: the files that they need are not there")
    firsts = [places[0] for places in together.values()]
    names = _names([specs[place] for place in firsts], [configs[place] for place in firsts])
    return [
        Cell(
            name=name,
            numbers=frozenset(specs[place].number for place in places),
            config=configs[places[0]],
            suffix=suffix,
        )
        for places, (name, suffix) in zip(together.values(), names, strict=True)
    ]


def plan_of(cells: Sequence[Cell], *, missing: str) -> list[Planned]:
    """Every run, cell by cell and window by window, so that a worker meets a window again.

    Everything is built once here, so that what cannot be built ends the program at its start.

    Raises:
        ConfigError: no entry takes part anywhere, or two make the same scheduler.
        GpuYardError: a scheduler or an experiment cannot be built.
    """
    composed: dict[str, list[Entrant]] = {}
    planned = []
    for cell in cells:
        keys = ("lineup", "checkpoint", "untrained")
        text = json.dumps([cell.config[key] for key in keys])
        if text not in composed:
            composed[text] = entrants_of(cell.config, missing=missing)
        planned += _runs(cell, composed[text])
    if not planned:
        raise ConfigError("no scheduler takes part in any cell; look at cells: in the line-up")
    return planned


def _runs(cell: Cell, entrants: Sequence[Entrant]) -> list[Planned]:
    windows = cell.config["windows"]
    if type(windows) is not int or windows < 1:
        raise ConfigError(f"windows is {windows!r}; it must be a whole number from 1")
    here = [each for each in entrants if each.cells is None or each.cells & cell.numbers]
    config = run_config(cell.config)
    settings = [setting_text(config, each.contender) for each in here]
    part = str(cell.config["part"])
    _check_names([Task(s, e.contender, part, 0) for s, e in zip(settings, here, strict=True)])
    found = []
    for window in range(windows):
        for each, setting in zip(here, settings, strict=True):
            if each.windows is None or window < each.windows:
                task = Task(setting, each.contender, part, window)
                workload = str(config["workload"]["name"])
                found.append(
                    Planned(cell.name, workload, cell.suffix, each.entry, task, part_name(task))
                )
    return found


def _check_names(tasks: Sequence[Task]) -> None:
    labels = [task_labels(task) for task in tasks]
    counts = Counter((each.scheduler, each.agents) for each in labels)
    for (name, agents), count in counts.items():
        if count > 1:
            places = [
                task.contender.place
                for task, each in zip(tasks, labels, strict=True)
                if (each.scheduler, each.agents) == (name, agents)
            ]
            raise ConfigError(
                f"{' and '.join(places)} make the same scheduler {name}; leave one out or give "
                f"it a name"
            )


def _there(spec: CellSpec) -> bool:
    if spec.needs_file is None or Path(spec.needs_file).is_file():
        return True
    log.warning("cell %d is left out: %s is not there", spec.number, spec.needs_file)
    return False


def _composed(
    program: str, spec: CellSpec, base: Sequence[str], later: Sequence[str]
) -> dict[str, Any]:
    config, _ = resolve(compose(program, last_of_each([*base, *spec.overrides, *later])))
    return config


def _names(
    specs: Sequence[CellSpec], configs: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """(name, suffix) of each cell: what of topology, workload, load and the rest tells it apart."""
    settings = [_setting(config) for config in configs]
    differs = [len(set(values)) > 1 for values in zip(*settings, strict=True)]
    plain = [
        ", ".join(text for text, shown in zip(setting, differs, strict=True) if shown)
        for setting in settings
    ]
    counts = Counter(settings)
    found = []
    for spec, setting, name in zip(specs, settings, plain, strict=True):
        rest = [w for w in spec.overrides if w.partition("=")[0].lstrip("+") not in OWN_LABELS]
        told = spec.name or " ".join(rest)
        if counts[setting] > 1 and told:
            whole = told if spec.name or not name else f"{name}, {told}"
            found.append((whole, f" [{told}]"))
        else:
            found.append((spec.name or name or ", ".join(setting), ""))
    repeated = [name for name, count in Counter(name for name, _ in found).items() if count > 1]
    if repeated:
        raise ConfigError(f"two cells are called {repeated[0]!r}; give them different names")
    return found


def _setting(config: Mapping[str, Any]) -> tuple[str, ...]:
    load = config["workload"]["load"]
    return (
        str(config["topology"]["name"]),
        str(config["workload"]["name"]),
        "load as it is" if load is None else f"load {load:g}",
        f"{config['agents']['count']} agents",
        f"seed {config['seed']}",
    )
