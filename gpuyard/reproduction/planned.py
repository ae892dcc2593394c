"""From an experiment to the runs it takes: cells, composed and told apart, times schedulers."""

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from gpuyard.evaluation.lineup import Contender, entries_of, lineup_of, plain_entry
from gpuyard.evaluation.task import Task, check_names, setting_text, windows_played
from gpuyard.launch.build import check_count, resolve
from gpuyard.launch.errors import ConfigError, nearest
from gpuyard.launch.own import choices_of, composed_of
from gpuyard.reproduction.node import (
    Asked,
    CellSpec,
    PickedOn,
    Reproduction,
    key_of,
    last_of_each,
    run_config,
)
from marl.policy import SHIPPED, policy_folder
from sim.errors import amount, override
from sim.files import Labels
from sim.report.headline import PICKED_ROLES

log = logging.getLogger(__name__)

PROGRAM = "reproduce"
MISSING = ("error", "skip")


@dataclass(frozen=True)
class Entrant:
    """A contender, and where it takes part."""

    contender: Contender
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
    entries = entries_of(config)
    absent = {number: words for number, entry in enumerate(entries) if (words := _absent(entry))}
    if absent and missing == "error":
        lines = [f"lineup.entries[{number}] {words}" for number, words in absent.items()]
        raise ConfigError(
            "\n  ".join(["the line-up names what is not there:", *lines])
            + "\n  missing=skip leaves these entries out"
        )
    for number, words in absent.items():
        log.warning("left out: lineup.entries[%d] %s", number, words)
    kept = [number for number in range(len(entries)) if number not in absent]
    limits = [_limits(f"lineup.entries[{number}]", entries[number]) for number in kept]
    stripped = [plain_entry(entries[number]) for number in kept]
    try:
        found = lineup_of({**config, "lineup": {"entries": stripped}})
    except ConfigError as error:
        raise ConfigError(_numbered(str(error), kept)) from error
    return [_entrant(contender, limits) for contender in found]


def _absent(entry: Any) -> str:
    """The group options of an entry that have no file, in words; empty where all are there."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("overrides"), list):
        return ""  # told by lineup_of
    lacking = []
    for each in OverridesParser.create().parse_overrides(entry["overrides"]):
        group = each.key_or_group
        if "." in group or group not in ("scheduler", "placer", "sharing", "forwarding"):
            continue
        options = choices_of(group)
        swept = each.is_sweep_override()
        values = each.sweep_string_iterator() if swept else [str(each.value())]
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
    check_count(f"{place}.windows", windows, null=True)
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
    contender: Contender, limits: Sequence[tuple[int | None, frozenset[int] | None]]
) -> Entrant:
    place = re.match(r"lineup\.entries\[(\d+)\]", contender.place)
    if place is None:  # the learned policy
        return Entrant(contender, None, None)
    return Entrant(contender, *limits[int(place.group(1))])


WHOLE = "all"  # the part of a file that holds all others
CELL_KEYS = ("part", "lineup", "windows", "checkpoint", "agent_counts")
OWN_LABELS = ("topology", "workload", "workload.load", "agents.count", "seed")


@dataclass(frozen=True)
class Cell:
    """One cell, composed; cells that turned out equal (`debug`) are one with several numbers."""

    name: str  # in results
    numbers: frozenset[int]
    config: dict[str, Any]  # resolved
    suffix: str  # of the workload's name, where labels alone would not tell cells apart

    def entering(self, entries: Iterable[Mapping[str, Any]]) -> "Cell":
        """The cell with these entries of a line-up."""
        return replace(self, config={**self.config, "lineup": {"entries": list(entries)}})


@dataclass(frozen=True)
class Planned:
    """One run to be made, or made before."""

    cell: str
    workload: str  # without the cell's suffix
    suffix: str
    task: Task
    part: str  # name of its file
    picks: bool = False  # only chooses rivals: on windows that no result is of

    def labelled(self, labels: Labels) -> Labels:
        """Labels in results: the cell's suffix is part of the workload's name."""
        return replace(labels, workload=self.workload + self.suffix)


def cells_of(found: Reproduction, words: Asked, *more: str) -> list[Cell]:
    """Compose every cell with the words before and after its own.

    Cells whose file is not there are left out, and logged. `more` stands before what the user
    typed.

    Raises:
        ConfigError: no cell is left, or one cannot be composed.
    """
    specs = [spec for spec in found.cells if _has_file(spec)]
    later = words.later(*more)
    overrides = [last_of_each([*words.chosen, *each.overrides, *later]) for each in specs]
    configs = [resolve(composed_of(PROGRAM, each)) for each in overrides]
    together: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        key = json.dumps([run_config(config), *(config[each] for each in CELL_KEYS)])
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


def planned_of(
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
        keys = ("lineup", "checkpoint", "agent_counts")
        text = json.dumps([cell.config[key] for key in keys])
        if text not in composed:
            composed[text] = entrants_of(cell.config, missing=missing)
        planned += _runs(cell, composed[text], picked_on)
    if not planned:
        raise ConfigError("no scheduler takes part in any cell; look at cells: in the line-up")
    return planned


def _runs(cell: Cell, entrants: Sequence[Entrant], picked_on: PickedOn | None) -> list[Planned]:
    windows = cell.config["windows"]
    check_count("windows", windows)
    here = [each for each in entrants if each.cells is None or each.cells & cell.numbers]
    config = run_config(cell.config)
    settings = [setting_text(config, each.contender) for each in here]
    part = str(cell.config["part"])
    check_names([Task(s, e.contender, part, 0) for s, e in zip(settings, here, strict=True)])
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
                found.append(Planned(cell.name, workload, cell.suffix, task, part_name(task)))
    return found


def _has_file(spec: CellSpec) -> bool:
    if spec.needs_file is None or Path(spec.needs_file).is_file():
        return True
    log.warning("cell %d is left out: %s is not there", spec.number, spec.needs_file)
    return False


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
        rest = [w for w in spec.overrides if key_of(w) not in OWN_LABELS]
        label = spec.name or " ".join(rest)
        if counts[setting] > 1 and label:
            whole = label if spec.name or not name else f"{name}, {label}"
            found.append((whole, f" [{label}]"))
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
        amount(config["agents"]["count"], "agent"),
        f"seed {config['seed']}",
    )


def with_policies(cell: Cell, folders: Mapping[str, str], key: str) -> Cell:
    """The cell in which every entry that is called like a policy gets its folder as `key`."""
    entries = []
    for entry in entries_of(cell.config):
        folder = folders.get(str(entry.get("name")))
        words = [] if folder is None else [override(key, folder)]
        entries.append({**entry, "overrides": [*entry["overrides"], *words]})
    return cell.entering(entries)


def standing_in(cell: Cell, names: Collection[str]) -> Cell:
    """The cell in which entries with these names, which wait for policies, are plain SJF."""
    plain = {"overrides": ["scheduler=sjf"]}
    return cell.entering(
        {**each, **plain} if isinstance(each, Mapping) and each.get("name") in names else each
        for each in entries_of(cell.config)
    )


MOST_READ_BYTES = 1 << 24  # of a file; a policy trained anew has the size of the old one


def part_name(task: Task) -> str:
    """A name that two tasks share if their resolved configurations are equal (`name_of_all`)."""
    contender = task.contender
    named = (contender.name or "", task.part or "", str(task.window))
    return name_of_all([task.setting, contender.composition], named)


def name_of_all(settings: Sequence[str], words: Sequence[str] = ()) -> str:
    """A file name that two results share if all that decides them is equal.

    A file that a setting (JSON) names (a trace, a policy) counts by its path and content, above
    16 MiB by its path and size, a folder by its files; the program's own code does not count.
    """
    files = sorted({line for setting in settings for line in _files_named(setting)})
    digest = hashlib.sha256("\n".join([*settings, *words, *files]).encode()).hexdigest()
    return f"{digest[:32]}.json"


@lru_cache(maxsize=1024)
def _files_named(text: str) -> list[str]:
    return _files(json.loads(text))


def _files(found: Any) -> list[str]:
    """A line for every file that a text of the configuration names."""
    if isinstance(found, Mapping):
        named = found.get("checkpoint")
        own = _file_lines(policy_folder(named).glob("policy.*")) if named in SHIPPED else []
        return [*own, *(text for value in found.values() for text in _files(value))]
    if isinstance(found, list):
        return [text for value in found for text in _files(value)]
    if not isinstance(found, str) or "/" not in found:
        return []
    path = Path(found)
    return _file_lines([path] if path.is_file() else path.rglob("*"))


def _file_lines(paths: Iterable[Path]) -> list[str]:
    files = sorted(path for path in paths if path.is_file())
    return [f"{each} {_fingerprint(each, each.stat().st_size)}" for each in files]


@lru_cache(maxsize=1024)
def _fingerprint(path: Path, size_bytes: int) -> str:
    if size_bytes > MOST_READ_BYTES:
        return str(size_bytes)
    return hashlib.sha256(path.read_bytes()).hexdigest()
