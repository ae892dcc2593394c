"""What an evaluation compares (`conf/lineup/`), what its runs assume, and warming up."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from gpuyard.evaluation.experiment import Experiment, physics_name
from gpuyard.launch.build import check_count, resolve
from gpuyard.launch.errors import ConfigError, explain, instead, refuse_no_choice
from gpuyard.launch.own import composed_of
from sim.errors import override

log = logging.getLogger(__name__)

KEYS = ("role", "overrides", "agents", "name")
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


def lineup_of(config: Mapping[str, Any]) -> list[Contender]:
    """Compose every entry; learned policies come first. Must be called inside a Hydra program.

    An override with several values (`sharing=off,selective`) stands for one scheduler each, as in
    a sweep.

    Raises:
        ConfigError: naming the entry and what is wrong with it.
    """
    found = _learned(config)
    for number, entry in enumerate(config["lineup"]["entries"]):
        place = f"lineup.entries[{number}]"
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
    entries = config["lineup"]["entries"]
    limits = {
        f"lineup.entries[{number}]": entry["windows"]
        for number, entry in enumerate(entries)
        if isinstance(entry, Mapping) and type(entry.get("windows")) is int
    }
    plain = [plain_entry(entry) for entry in entries]
    return limits, {**config, "lineup": {**config["lineup"], "entries": plain}}


def _counts(given: Any) -> list[int]:
    """Numbers of agents that everyone plays with; none: as `agents.count` says."""
    counts = [] if given is None else given
    whole = isinstance(counts, Sequence) and all(type(n) is int and n > 0 for n in counts)
    if not whole or len(set(counts)) != len(counts):
        raise ConfigError(f"agent_counts is {given!r}; it must be a list like [4, 8], or null")
    return list(counts)


def _spread(contender: Contender, counts: Sequence[int]) -> list[Contender]:
    """The contender once a number of agents, unless its entry names one."""
    if contender.agents is not None or not counts:
        return [contender]
    return [replace(contender, agents=count) for count in counts]


def _learned(config: Mapping[str, Any]) -> list[Contender]:
    """The policy in `checkpoint` and, if asked for, the same network without its training."""
    folder = config["checkpoint"]
    if folder is None:
        if config["untrained"]:
            raise ConfigError("untrained=true takes the sizes of a policy; add checkpoint=DIR")
        return []
    variants = [("ours", "false")]
    if config["untrained"]:
        variants.append(("ablation", "true"))
    policy = override("++checkpoint", folder)
    return [
        Contender(
            place="checkpoint",
            composition=_composed(
                "checkpoint", ["scheduler=marl", policy, f"scheduler.untrained={untrained}"]
            ),
            role=role,
            agents=None,
            name=None,
        )
        for role, untrained in variants
    ]


def _check(place: str, entry: Any) -> None:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{place} is {entry!r}; it must hold {', '.join(KEYS)}")
    for key in entry:
        if key not in KEYS:
            known = f"it takes {', '.join(KEYS)}; line-ups with more are for reproduce.py"
            raise ConfigError(f"{place}.{key}: no such key; {instead(key, KEYS, known)}")
    for key in ("role", "overrides"):
        if key not in entry:
            raise ConfigError(f"{place}: has no {key}; add {key}: to the entry")
    overrides = entry["overrides"]
    if not isinstance(overrides, list) or not all(isinstance(text, str) for text in overrides):
        raise ConfigError(
            f"{place}.overrides is {overrides!r}; it must be a list like [scheduler=sjf]"
        )
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


def _refuse_for_all(place: str, overrides: list[str]) -> None:
    """Refuse what is the same for all entries: nobody would read it here."""
    for each in OverridesParser.create().parse_overrides(overrides):
        key = each.key_or_group
        named = each.package or key  # linear_weights@scheduler.weights
        if each.is_add() and named.partition(".")[0] not in OF_ENTRIES:
            raise ConfigError(
                f"{place}: an entry does not read {key!r}, only {', '.join(OF_ENTRIES)}; give "
                f"{str(each.input_line).lstrip('+')} to the whole program, for all of its entries"
            )


def _composed(place: str, overrides: list[str]) -> str:
    _refuse_for_all(place, overrides)
    try:
        refuse_no_choice(overrides, GlobalHydra.instance().config_loader().get_group_options)
        plain = resolve(composed_of("composition", overrides))
    except (ConfigError, HydraException) as error:
        raise ConfigError(f"{place}: {explain(error)}") from error
    return json.dumps(plain)


def refuse_size_of_window(workload: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Refuse a number of jobs of a file that is played as a whole.

    Raises:
        ConfigError: naming the override.
    """
    sizes = [word for word in overrides if word.startswith("workload.num_jobs=")]
    if sizes and "path" in workload and workload["num_jobs"] is not None:
        raise ConfigError(
            f"{sizes[0]} is the size of a window; play windows of a part (part=test), or cut the "
            "trace in time by workload.window.end_s"
        )


ESTIMATES = {  # class of `conf/estimator` -> what schedulers are told of durations
    "NoisyEstimator": "noisy predictions, sigma {sigma:g}",
    "OracleEstimator": "the true ones",
    "LimitEstimator": "users' time limits, which end no job",
    "NoEstimator": "none predicted",
    "GroupMedian": "predicted as the median of the group's finished runs",
    "LastOfGroup": "predicted as the group's last finished run",
    "RandomForestEstimator": "predicted by a random forest on finished jobs",
}
MODEL_COLUMNS = ("model", "application")  # of `workload.columns`
OFF = "none"
MOST_LOAD = 3.0  # above it somebody may have meant percent
HOUR_S = 3600.0


FABRIC = ("topology.oversubscription", "topology.spines", "topology.fabric_gbps")


def warn_of_unread_links(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Say so where links of the fabric are set and the network has none of them."""
    if config["network"]["_target_"].endswith(".AlphaBetaRing"):
        for word in overrides:
            if word.lstrip("+").startswith(FABRIC):
                log.warning(
                    "%s changes no time: network=alpha_beta has the smallest NIC and asks whether "
                    "a gang spans racks; network=max_min has all links", word,
                )  # fmt: skip


def assumptions(
    config: Mapping[str, Any], experiment: Experiment, information: str | None = None
) -> tuple[str, ...]:
    """What no label of a result tells, for `record.json` and below tables; GPU types come last.

    Args:
        config: the resolved configuration.
        experiment: built from it.
        information: that the one scheduler has of durations; None: several may read predictions.
    """
    parts = [_durations(config, information), _measured_on(config, experiment)]
    parts += [_models(config, experiment), *_unlike_shipped(config, experiment)]
    parts += _cuts(config["workload"])
    parts += [*_left_out(config["workload"]), *_windows(config, experiment)]
    return (*filter(None, [*parts, _partitions(experiment)]), *experiment.gpu_notes)


def assumed_line(experiment: Experiment, assumed: tuple[str, ...]) -> str:
    """One line: what was assumed, then physics and load, which tables have in their titles."""
    physics, load = physics_name(experiment.game.physics), experiment.load
    words = [
        *(part for part in assumed if part not in experiment.gpu_notes),
        "physics off" if physics == OFF else f"physics on ({physics})",
        "load as it comes" if load is None else f"times stretched to load {load:g}",
    ]
    return "assumes " + "; ".join(words)


def _durations(config: Mapping[str, Any], information: str | None) -> str:
    if information == OFF:
        return "durations unknown to the scheduler"
    if information == "oracle":
        return "durations: the true ones"
    given = config["estimator"]
    name = given["_target_"].rpartition(".")[2]
    return "durations: " + ESTIMATES.get(name, f"predicted by {name}").format(**given)


def _measured_on(config: Mapping[str, Any], experiment: Experiment) -> str | None:
    """The GPU type that the trace's durations are of, where it could be another."""
    if len(set(experiment.game.topology.gpu_types)) == 1:
        return None
    said = "" if config["reference_gpu"] else ", the topology's first: see reference_gpu"
    return f"durations as on {experiment.game.physics.reference_gpu}{said}"


def _models(config: Mapping[str, Any], experiment: Experiment) -> str | None:
    """Who says what a job trains; without physics it is all the same."""
    workload = config["workload"]
    if physics_name(experiment.game.physics) == OFF:
        return None
    if any((workload.get("columns") or {}).get(name) for name in MODEL_COLUMNS):
        return "models as the file names them, others drawn"
    return "models of the published mix" if "mix" in workload else "models drawn"


UNLIKE_SHIPPED = {  # group -> its class, where that is not what `conf/base.yaml` has -> in words
    "interference": {"NoInterference": "neighbours on a GPU slow nobody"},
    "network": {
        "NoNetwork": "communication is free", "MaxMin": "jobs share links by max-min",
        "KWay": "jobs share links evenly", "DutyCycle": "jobs share links by duty cycle",
        "TieredRings": "rings of three tiers", "YorkNetwork": "communication by the tree's weights",
    },
    "host": {"SharedHost": "jobs share cores and PCIe"},
    "outages": {
        "ServerFailures": "servers fail, in all windows alike",
        "RollingMaintenance": "servers are closed in turn",
        "FailuresAndMaintenance": "servers fail, in all windows alike, and are closed in turn",
        "OutageFile": "servers go and come as a file says",
    },
}  # fmt: skip


def _unlike_shipped(config: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """What of the world was switched; of physics nothing where all of it is off."""
    off = physics_name(experiment.game.physics) == OFF
    for group, words in UNLIKE_SHIPPED.items():
        name = config[group]["_target_"].rpartition(".")[2]
        if name in words and not (off and group in {"interference", "network"}):
            yield words[name]


def _cuts(workload: Mapping[str, Any]) -> Iterator[str]:
    """How the jobs were changed."""
    gang = workload.get("max_gang")
    low_s, high_s = (workload.get(f"{end}_duration_s") for end in ("min", "max"))
    if gang is not None:
        yield f"gangs cut to {gang} GPUs"
    if low_s is not None and high_s is not None:
        yield f"durations kept within {_time(low_s)} and {_time(high_s)}"
    elif low_s is not None:
        yield f"durations raised to {_time(low_s)}"
    elif high_s is not None:
        yield f"durations cut to {_time(high_s)}"
    load = workload.get("load")
    if load is not None and load > MOST_LOAD:
        yield f"jobs ask for {load:g} times the GPUs there are (0.9: for 90 % of them)"


def _left_out(workload: Mapping[str, Any]) -> Iterator[str]:
    """Jobs of the trace that are not played, and wishes that are not kept, if there are any."""
    window = workload.get("window") or {}
    start_s, end_s = (window.get(f"{end}_s") for end in ("start", "end"))
    if start_s or end_s is not None:
        until = "its end" if end_s is None else f"{end_s:g} s"
        yield f"the trace from {start_s or 0:g} s to {until}"
    if workload.get("strict") is False:
        yield "rows with faults left out"
    if workload.get("drop_too_large"):
        yield "jobs larger than the cluster left out"
    if "path" in workload and workload["rules"]["unknown_gpu_types"] == "any":
        yield "jobs that want a GPU type that is not there run on any"


def _windows(config: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """How windows were taken from a file, and that they are one where they are."""
    part = config.get("part")
    kept = None if part is None else experiment.kept(part)
    if kept is None:
        return
    jobs, among, all_of = kept
    if among > jobs:
        yield f"1 job in {among / jobs:.3g} kept"
    if jobs == all_of and config.get("windows", 1) != 1:
        yield f"every window holds the same {jobs} jobs: only what is drawn for them differs"


def _time(seconds: float) -> str:
    return f"{seconds / HOUR_S:g} h" if seconds >= HOUR_S else f"{seconds:g} s"


def _partitions(experiment: Experiment) -> str | None:
    """That partitions are not of one size, where they are not."""
    game = experiment.game
    servers = np.bincount(game.topology.gpu_server)
    sizes = np.bincount(game.partition_of_server, weights=servers).astype(int)
    if sizes.min() == sizes.max():
        return None
    return f"{len(sizes)} partitions of unequal size: {', '.join(map(str, sizes))} GPUs"
