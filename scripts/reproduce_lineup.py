"""The line-up of a reproduction: entries may be limited to some cells and fewer windows."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from launch_errors import ConfigError, nearest
from lineup import Contender, lineup_of

log = logging.getLogger(__name__)

LIMITS = ("windows", "cells")
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
    stripped = [_without_limits(entries[number]) for number in kept]
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


def _without_limits(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if key not in LIMITS}


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
