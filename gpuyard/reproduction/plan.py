"""From an experiment to the runs it takes: cells, composed and told apart, times schedulers."""

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser

from gpuyard.evaluation.task import Task, setting_text, task_labels, windows_played
from gpuyard.experiment.lineup import Contender, lineup_of, plain_entry
from gpuyard.launch.build import resolve
from gpuyard.launch.errors import ConfigError, nearest
from gpuyard.reproduction.node import CellSpec, PickedOn, Reproduction, last_of_each
from gpuyard.reproduction.store import part_name, run_config
from sim.report.files import Labels
from sim.report.headline import PICKED_ROLES

log = logging.getLogger(__name__)

MISSING = ("error", "skip")


@dataclass(frozen=True)
class Entrant:
    """A contender, and where it takes part."""

    contender: Contender
    entry: int  # number of its entry in the file; -1: a learned policy
    windows: int | None  # the first so many; None: all
    cells: frozenset[int] | None  # numbers of cells; None: all


def entrants_of(config: Mapping[str, Any], *, missing: str) -> list[Entrant]:
    """Compose every entry, after all have been looked at for files that are not there.

    An entry's `windows` and `cells` (numbers from 0 as in `reproduce.cells`) limit it.

    Raises:
        ConfigError: naming every entry whose files are missing (with `missing=skip` these are
            left out, and logged), or the entry that is wrong in another way.
    """
    if missing not in MISSING:
        raise ConfigError(f"missing is {missing!r}; it must be {' or '.join(MISSING)}")
    entries = config["lineup"]["entries"]
    told = {number: words for number, entry in enumerate(entries) if (words := _absent(entry))}
    if told and missing == "error":
        lines = [f"lineup.entries[{number}] {words}" for number, words in told.items()]
        raise ConfigError(
            "\n  ".join(["the line-up names what is not there:", *lines])
            + "\n  missing=skip leaves these entries out"
        )
    for number, words in told.items():
        log.warning("left out: lineup.entries[%d] %s", number, words)
    kept = [number for number in range(len(entries)) if number not in told]
    limits = [_limits(f"lineup.entries[{number}]", entries[number]) for number in kept]
    stripped = [plain_entry(entries[number]) for number in kept]
    try:
        found = lineup_of({**config, "lineup": {"entries": stripped}})
    except ConfigError as error:
        raise ConfigError(_numbered(str(error), kept)) from error
    return [_entrant(contender, kept, limits) for contender in found]


def _absent(entry: Any) -> str:
    """The group options of an entry that have no file, in words; empty where all are there."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("overrides"), list):
        return ""  # told by lineup_of
    loader = GlobalHydra.instance().config_loader()
    lacking = []
    for override in OverridesParser.create().parse_overrides(entry["overrides"]):
        group = override.key_or_group
        if "." in group or group not in ("scheduler", "placer", "sharing", "forwarding"):
            continue
        options = loader.get_group_options(group, ObjectType.CONFIG)
        swept = override.is_sweep_override()
        values = override.sweep_string_iterator() if swept else [str(override.value())]
        for value in values:
            if value not in options:
                hint = nearest(value, options)
                like = f" (did you mean {hint}?)" if hint else ""
                lacking.append(f"{group}={value}{like}")
    return "needs " + ", ".join(lacking) if lacking else ""


def _limits(place: str, entry: Any) -> tuple[int | None, frozenset[int] | None]:
    if not isinstance(entry, Mapping):
        return None, None  # told by lineup_of
    windows, cells = entry.get("windows"), entry.get("cells")
    if windows is not None and (type(windows) is not int or windows < 1):
        raise ConfigError(f"{place}.windows is {windows!r}; it must be a whole number from 1")
    if cells is None:
        return windows, None
    if not isinstance(cells, list) or not all(type(n) is int and n >= 0 for n in cells):
        raise ConfigError(f"{place}.cells is {cells!r}; it must list numbers of cells, from 0")
    return windows, frozenset(cells)


def _numbered(text: str, kept: Sequence[int]) -> str:
    """Numbers of entries as in the file, where some were left out."""
    return re.sub(
        r"lineup\.entries\[(\d+)\]", lambda m: f"lineup.entries[{kept[int(m.group(1))]}]", text
    )


def _entrant(
    contender: Contender,
    kept: Sequence[int],
    limits: Sequence[tuple[int | None, frozenset[int] | None]],
) -> Entrant:
    place = re.match(r"lineup\.entries\[(\d+)\]", contender.place)
    if place is None:  # the learned policy
        return Entrant(contender, -1, None, None)
    number = int(place.group(1))
    return Entrant(contender, kept[number], *limits[number])


WHOLE = "all"  # the part of a file that holds all others
TOLD_APART = ("part", "lineup", "windows", "checkpoint", "untrained", "agent_counts")
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
    picks: bool = False  # only chooses rivals: on windows that no result is of

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
        key = json.dumps([run_config(config), *(config[each] for each in TOLD_APART)])
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


def plan_of(
    cells: Sequence[Cell], *, missing: str, picked_on: PickedOn | None = None
) -> list[Planned]:
    """Every run, cell by cell and window by window, so that a worker meets a window again.

    Everything is built once here, so that what cannot be built ends the program at its start.
    With `picked_on` each cell is followed by runs of the rivals that are chosen from, on its
    windows.

    Raises:
        ConfigError: no entry takes part anywhere, two make the same scheduler, or rivals would be
            chosen on windows that results are of.
        GpuYardError: a scheduler or an experiment cannot be built.
    """
    composed: dict[str, list[Entrant]] = {}
    planned = []
    for cell in cells:
        keys = ("lineup", "checkpoint", "untrained", "agent_counts")
        text = json.dumps([cell.config[key] for key in keys])
        if text not in composed:
            composed[text] = entrants_of(cell.config, missing=missing)
        planned += _runs(cell, composed[text], picked_on)
    if not planned:
        raise ConfigError("no scheduler takes part in any cell; look at cells: in the line-up")
    return planned


def ours_of(planned: Sequence[Planned], wanted: str | None) -> str | None:
    """The scheduler that the others are divided by: the one wanted, else that of role ours.

    Raises:
        ConfigError: none of the schedulers has the name wanted.
    """
    one_each = {(run.task.setting, run.task.contender): run.task for run in planned}
    roles = {task_labels(task).scheduler: task.contender.role for task in one_each.values()}
    if wanted is not None and wanted not in roles:
        raise ConfigError(f"ours is {wanted!r}; the schedulers here are {', '.join(roles)}")
    return wanted or next((name for name, role in roles.items() if role == "ours"), None)


def _runs(cell: Cell, entrants: Sequence[Entrant], picked_on: PickedOn | None) -> list[Planned]:
    windows = cell.config["windows"]
    if type(windows) is not int or windows < 1:
        raise ConfigError(f"windows is {windows!r}; it must be a whole number from 1")
    here = [each for each in entrants if each.cells is None or each.cells & cell.numbers]
    config = run_config(cell.config)
    settings = [setting_text(config, each.contender) for each in here]
    part = str(cell.config["part"])
    _check_names([Task(s, e.contender, part, 0) for s, e in zip(settings, here, strict=True)])
    playing = list(zip(here, settings, strict=True))
    found = _played(cell, playing, part, windows)
    if picked_on is None:
        return found
    if part in (picked_on.part, WHOLE):
        raise ConfigError(
            f"part is {part}, which holds the windows of reproduce.picked_on.part="
            f"{picked_on.part}; rivals must be chosen on other windows than those of the results, "
            f"or with reproduce.picked_on=null on those alone"
        )
    rivals = [each for each in playing if each[0].contender.role in PICKED_ROLES]
    picks = _played(cell, rivals, picked_on.part, min(picked_on.windows, windows))
    return [*found, *(replace(run, picks=True) for run in picks)]


def _played(
    cell: Cell, playing: Sequence[tuple[Entrant, str]], part: str, windows: int
) -> list[Planned]:
    """Runs of entrants under their settings, window by window; of a short file all there are."""
    workload = str(cell.config["workload"]["name"])
    found = []
    played = windows_played(windows, playing[0][1], part) if playing else 0
    for window in range(played):
        for each, setting in playing:
            if each.windows is None or window < each.windows:
                task = Task(setting, each.contender, part, window)
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


def with_policies(cell: Cell, folders: Mapping[str, str], key: str) -> Cell:
    """The cell in which every entry that is called like a policy gets its folder as `key`."""
    entries = [_entry(entry, folders, key) for entry in cell.config["lineup"]["entries"]]
    return replace(cell, config={**cell.config, "lineup": {"entries": entries}})


def _entry(entry: Mapping[str, Any], folders: Mapping[str, str], key: str) -> dict[str, Any]:
    folder = folders.get(str(entry.get("name")))
    words = [] if folder is None else [folder_override(key, folder)]
    return {**entry, "overrides": [*entry["overrides"], *words]}


def folder_override(key: str, folder: str | Path) -> str:
    """`key='folder'` as Hydra reads it back, whatever the folder is called."""
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{quoted}'"
