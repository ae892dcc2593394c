"""What an evaluation compares: the line-ups of `conf/lineup/`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from gpuyard.launch.build import check_count, check_keys, check_texts, resolve, section
from gpuyard.launch.errors import ConfigError, explain, nearest
from gpuyard.launch.own import composed_of
from sim.errors import override

KEYS = ("role", "overrides", "agents", "name")
START, STARTED = "start", "marl_start"  # a policy before it learned: in its folder, in tables
LIMITS = ("windows", "cells")  # of an entry, in line-ups of reproduce.py


@dataclass(frozen=True)
class Contender:
    """One scheduler of a line-up; texts and numbers only, so that it can be sent and hashed."""

    place: str  # where it stands, for messages
    composition: str  # JSON of the resolved `composition` configuration
    role: str
    agents: int | None  # partitions of the same cluster; None: as the experiment says
    name: str | None  # in results; None: the composition's own
    words: str = ""  # overrides that make it in any program; none for learned policies


def entries_of(config: Mapping[str, Any]) -> list[Any]:
    """The entries of the line-up, not looked at yet; ConfigError: there is no list of them."""
    entries = section(config, "lineup.entries")
    if not isinstance(entries, list):
        raise ConfigError(f"lineup.entries is {entries!r}; it must be a list, each with a role")
    return entries


def lineup_of(config: Mapping[str, Any], at: str = "lineup.entries") -> list[Contender]:
    """Compose every entry; learned policies come first. Must be called inside a Hydra program.

    An override with several values (`sharing=off,selective`) stands for one scheduler each, as in
    a sweep.

    Raises:
        ConfigError: naming the entry, which stands in `at`, and what is wrong with it.
    """
    found = _learned(config)
    for number, entry in enumerate(entries_of(config)):
        place = f"{at}[{number}]"
        _check(place, entry)
        try:
            combinations = sweeps(entry["overrides"])
        except HydraException as error:
            raise ConfigError(f"{place}: {explain(error)}") from error
        for overrides in map(list, combinations):
            found.append(
                Contender(
                    place=f"{place} ({' '.join(overrides)})",
                    composition=_composed(place, overrides),
                    role=entry["role"],
                    agents=entry.get("agents"),
                    name=entry.get("name"),
                    words=" ".join(overrides),
                )
            )
    if not found:
        raise ConfigError("lineup.entries is empty and no checkpoint is given; name a scheduler")
    counts = _counts(config["agent_counts"])
    return [each for one in found for each in _spread(one, counts)]


def plain_entry(entry: Any) -> Any:
    """An entry without `LIMITS`; what is no mapping stays, to be refused."""
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if key not in LIMITS}


def without_limits(config: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """How many windows entries play at most, by their place, and the line-up without `LIMITS`."""
    entries = entries_of(config)
    limits: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping) and entry.get("windows") is not None:
            place = f"lineup.entries[{number}]"
            check_count(f"{place}.windows", entry["windows"])
            limits[place] = entry["windows"]
    plain = [plain_entry(entry) for entry in entries]
    return limits, {**config, "lineup": {**config["lineup"], "entries": plain}}


def _counts(given: Any) -> list[int]:
    """Numbers of agents that everyone plays with; none: as `agents.count` says."""
    counts = [] if given is None else given
    whole = isinstance(counts, list | tuple) and all(type(n) is int and n > 0 for n in counts)
    if not whole or len(set(counts)) != len(counts):
        raise ConfigError(f"agent_counts is {given!r}; it must be a list like [4, 8], or null")
    return list(counts)


def _spread(contender: Contender, counts: Sequence[int]) -> list[Contender]:
    """The contender once a number of agents, unless its entry names one."""
    if contender.agents is not None or not counts:
        return [contender]
    return [replace(contender, agents=count) for count in counts]


def _learned(config: Mapping[str, Any]) -> list[Contender]:
    """The policy in `checkpoint`, and what it was before it learned where its folder has that."""
    folder = config["checkpoint"]
    if folder is None:
        return []
    start = Path(str(folder)) / START
    found = [_policy(str(folder), "ours", None)]
    return [*found, _policy(str(start), "ablation", STARTED)] if start.is_dir() else found


def _policy(folder: str, role: str, name: str | None) -> Contender:
    words = ["scheduler=marl", override("++checkpoint", folder)]
    return Contender("checkpoint", _composed("checkpoint", words), role, agents=None, name=name)


def _check(place: str, entry: Any) -> None:
    check_keys(place, entry, KEYS, needed=("role", "overrides"))
    for key, rule in {"role": str, "name": str | None}.items():
        if not isinstance(entry.get(key), rule):
            raise ConfigError(f"{place}.{key} is {entry.get(key)!r}; it must be a text")
    check_texts(f"{place}.overrides", entry["overrides"], "like [scheduler=sjf]")
    check_count(f"{place}.agents", entry.get("agents"), null=True)


def sweeps(overrides: Sequence[str]) -> list[tuple[str, ...]]:
    """Every choice of one value from each override, the last changing fastest."""
    choices = []
    for each in OverridesParser.create().parse_overrides(list(overrides)):
        if each.is_sweep_override():
            key = each.get_key_element()
            choices.append([f"{key}={value}" for value in each.sweep_string_iterator()])
        else:
            choices.append([str(each.input_line)])
    return list(product(*choices))


OF_ENTRIES = ("scheduler", "placer", "sharing", "forwarding", "belief", "checkpoint")


def refuse_for_all(
    place: str, overrides: list[str], known: tuple[str, ...] = OF_ENTRIES, *, all_words: bool
) -> None:
    """Raise ConfigError for what is the same for all entries: nobody would read it here.

    `known` are the keys that an entry reads; `all_words`: words without `+` are looked at, too,
    which Hydra refuses otherwise.
    """
    for each in OverridesParser.create().parse_overrides(overrides):
        key = each.key_or_group
        named = each.package or key  # linear_weights@scheduler.weights
        first = named.partition(".")[0]
        if first not in known and (each.is_add() or all_words):
            if near := nearest(first, known):
                raise ConfigError(f"{place}: no such key {key!r}; did you mean {near}?")
            raise ConfigError(
                f"{place}: an entry does not read {key!r}, only {', '.join(known)}; give "
                f"{str(each.input_line).lstrip('+')} to the whole program, for all of its entries"
            )


def _composed(place: str, overrides: list[str]) -> str:
    refuse_for_all(place, overrides, all_words=False)
    try:
        plain = resolve(composed_of("composition", overrides))
    except (ConfigError, HydraException) as error:
        raise ConfigError(f"{place}: {explain(error)}") from error
    return json.dumps(plain)


def refuse_size_of_window(workload: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Raise ConfigError for a number of jobs of a file that is played as a whole."""
    sizes = [word for word in overrides if word.startswith("workload.num_jobs=")]
    if sizes and "path" in workload and workload["num_jobs"] is not None:
        raise ConfigError(
            f"{sizes[0]} is the size of a window; play windows of a part (part=test), or cut the "
            "trace in time by workload.window.end_s"
        )
