"""Measure co-location on this machine: `python scripts/measure_colocation.py`."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from omegaconf import DictConfig
from rich.table import Table

from gpuyard.launch.build import SEED, Rules, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import RunCount, table_console
from interference.data_sets import ROWS_FILE, SOLOS_FILE, write_csv
from interference.measuring.together import (
    Device,
    LoopTask,
    MeasureError,
    Timing,
    Together,
    Use,
    find_device,
    memory_held_mib,
    run_together,
)
from interference.rows import (
    HIGHEST_SPEED,
    JOIN,
    MOST_AGGRESSORS,
    CoRows,
    SoloProfiles,
    co_rows,
    solo_profiles,
)
from sim.errors import nearest
from sim.files import write_atomically

log = logging.getLogger(__name__)

PARTS = "parts"
IDLE = 0.9  # share of its core that a loop alone gets on an idle machine, at least
HELD_MIB = 1024.0  # on a GPU that somebody else uses
PAIR = 2
Groups = Sequence[Sequence[str]]


class Group(NamedTuple):
    """Profiles that run at the same time; one alone is measured to compare with."""

    number: int  # as in the rows
    members: tuple[str, ...]  # "model/batch", in the order of their names


def groups_to_measure(
    profiles: Sequence[str], pairs: Groups | Literal["all"], mixes: Groups
) -> list[Group]:
    """Every profile alone, then pairs (or "all" of them), then mixes of three to seven; each once.

    Raises:
        MeasureError: naming the key and the profile or the group that cannot be.
    """
    for name in profiles:
        model_and_batch(name)
    chosen = list(combinations_with_replacement(profiles, PAIR)) if pairs == "all" else pairs
    if wrong := [list(members) for members in chosen if len(members) != PAIR]:
        raise MeasureError(f"pairs: {wrong[0]} has not two profiles; see mixes")
    most = MOST_AGGRESSORS + 1
    if wrong := [list(members) for members in mixes if not PAIR < len(members) <= most]:
        raise MeasureError(
            f"mixes: {wrong[0]} has fewer than three profiles (see pairs) or more than {most}"
        )
    for members in (*chosen, *mixes):
        for name in members:
            if name not in profiles:
                hint = nearest(name, profiles) or f"; there are {', '.join(profiles)}"
                raise MeasureError(f"{list(members)}: {name!r} is not among profiles{hint}")
    groups = [*((name,) for name in profiles), *(tuple(sorted(m)) for m in (*chosen, *mixes))]
    return [Group(number, members) for number, members in enumerate(dict.fromkeys(groups))]


def model_and_batch(profile: str) -> tuple[str, int]:
    """The two sides of "model/batch"; a MeasureError if it has none."""
    model, _, batch = profile.rpartition("/")
    if not (model and batch.isdigit() and int(batch) > 0) or JOIN in model:
        raise MeasureError(f"profiles: {profile!r} is no model/batch without a +, like mlp/32")
    return model, int(batch)


@dataclass(frozen=True)
class Campaign:
    """All that decides what is measured."""

    groups: Mapping[Group, tuple[LoopTask, ...]]  # in the order in which they are measured
    device: Device
    timing: Timing
    repeats: int  # rounds over all groups, so that a machine that drifts shows


def measure_all(campaign: Campaign, folder: Path) -> Iterator[tuple[Group, int, Together]]:
    """Each group of each round, as it is measured; stored in `folder`/parts before it is given.

    A group is passed over if one of its profiles does not even fit alone.

    Raises:
        MeasureError: a loop that died, or a stored file that is none.
    """
    uuid = campaign.device.uuid
    before_mib = 0.0 if uuid is None else memory_held_mib(uuid)
    if before_mib > HELD_MIB:
        log.warning("others hold %.0f MiB of the GPU: their work slows every loop", before_mib)
    for round_ in range(campaign.repeats):
        too_large: set[str] = set()
        for group in campaign.groups:
            if too_large & set(group.members):
                log.warning("%s: not run, one does not fit alone", " + ".join(group.members))
                continue
            found = _measured_or_read(campaign, group, round_, folder / PARTS, before_mib)
            if len(group.members) == 1 and not found.feasible:
                log.warning("does not fit alone, left out: %s", found.words)
                too_large |= set(group.members)
            yield group, round_, found


def _measured_or_read(
    campaign: Campaign, group: Group, round_: int, parts: Path, before_mib: float
) -> Together:
    tasks, device, timing = campaign.groups[group], campaign.device, campaign.timing
    part = parts / part_name(tasks, timing, device, round_)
    found = read_part(part)
    if found is not None:
        return found
    found = run_together(tasks, timing, uuid=device.uuid, before_mib=before_mib)
    write_part(part, found)
    # One loop alone on its cores leaves them idle only while it waits for others.
    if device.form == "cpu" and len(found.busy) == 1 and found.busy[0] < IDLE:
        words = "%s alone got only %.0f %% of a core: others use this machine, speeds are rough"
        log.warning(words, group.members[0], 100.0 * found.busy[0])
    return found


def part_name(tasks: Sequence[LoopTask], timing: Timing, device: Device, round_: int) -> str:
    """A name that two measurements share if they are the same one.

    The code of a model does not count; the version of PyTorch does.
    """
    loops, shared = [asdict(task) for task in tasks], (device.gpu_type, device.how)
    decides = [*shared, loops, timing, round_, version("torch")]
    return f"{hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:32]}.json"


def write_part(path: Path, found: Together) -> None:
    """Store what came of a group, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(found), indent=1).encode())


def read_part(path: Path) -> Together | None:
    """What was stored, or None; a MeasureError if the file is no group."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        found["use"] = None if found["use"] is None else Use(**found["use"])
        found |= {key: tuple(found[key]) for key in ("steps_per_s", "busy")}
        return Together(**found)
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"{path} is no measured group; remove it to measure again") from None


OVER_ROUNDS = {"step_s": "median", "gpu_util": "mean", "gmem_util": "mean", "gmem_mib": "max"}


def tables_of(
    measured: Mapping[Group, Mapping[int, Together]], device: Device
) -> tuple[CoRows, SoloProfiles, list[Group]]:
    """One row a loop of each group, the profiles that fit alone, and groups that say nothing.

    A speed is the median over rounds of that over the speed alone in the same round: a machine that
    drifts does so in both. A group is feasible if it fitted in every round. What does not fit alone
    has no rows, and nothing beside it has any: a reader could not look up its solo profile. Nor has
    a group with a loop more than twice as fast as alone, where something else slowed it: it is
    given last. `measured` is by group and number of the round.
    """
    runs = _runs(measured)
    single = runs[runs.beside.map(len) == 0]
    alone = single.groupby("victim", sort=False).filter(lambda own: own.step_s.notna().all())
    profiled = runs.members.map(set(alone.victim).issuperset)
    own_s = alone.set_index(["victim", "round"]).step_s.rename("own_s")
    runs = runs[profiled].join(own_s, on=["victim", "round"])
    runs["norm_speed"] = runs.own_s / runs.step_s
    by_loop = runs.groupby(["group", "place"], as_index=False)
    rows = by_loop.agg({"victim": "first", "beside": "first", "norm_speed": np.median})
    fast = set(rows.group[rows.norm_speed > HIGHEST_SPEED])
    rows = rows[~rows.group.isin(fast)]
    norm_speed = rows.norm_speed.to_numpy(np.float64)
    co = co_rows(
        source=f"own_{device.how}", gpu_type=device.gpu_type, group=rows.group.to_numpy(np.int64),
        victim=list(rows.victim), aggressors=list(rows.beside), norm_speed=norm_speed,
        feasible=~np.isnan(norm_speed), measured=(rows.beside.map(len) > 0).to_numpy(np.bool_),
    )  # fmt: skip
    return co, _solos(alone, device), [group for group in measured if group.number in fast]


def _runs(measured: Mapping[Group, Mapping[int, Together]]) -> pd.DataFrame:
    """A line a loop and round; `step_s` is NaN where the group did not fit."""
    return pd.DataFrame(
        {
            "group": group.number, "members": group.members, "round": round_, "place": place,
            "victim": victim, "beside": group.members[:place] + group.members[place + 1 :],
            "step_s": 1.0 / found.steps_per_s[place] if found.feasible else np.nan,
            **(vars(found.use) if found.use else {}),
        }
        for group, rounds in measured.items()
        for round_, found in rounds.items()
        for place, victim in enumerate(group.members)
    )  # fmt: skip


def _solos(alone: pd.DataFrame, device: Device) -> SoloProfiles:
    runs = alone.reindex(columns=["victim", *OVER_ROUNDS])
    values = runs.groupby("victim", sort=False).agg(OVER_ROUNDS)
    models = [model_and_batch(profile) for profile in values.index]
    return solo_profiles(
        source=f"own_{device.how}", gpu_type=device.gpu_type, profile=list(values.index),
        model=[model for model, _ in models], batch=np.array([n for _, n in models], np.int64),
        **{name: values[name].to_numpy(np.float64) for name in OVER_ROUNDS},
    )  # fmt: skip


RULES: Rules = SEED | {
    "warmup_s": (False, 0),
    "measure_s": (False, 0),
    "least_steps": (True, 1),
    "patience_s": (False, 0),
    "repeats": (True, 1),
    "cpu.cores": (True, 1),
}
SHARED_BY = {
    "time_slicing": "the GPU's own time slicing (no MPS daemon answers)",
    "mps": "NVIDIA's Multi-Process Service",
    "cpu_cores": "turns on the cores that all loops are pinned to",
    "unpinned": "nothing: this system pins no process to a core, the speeds say little",
}


@program("measure_colocation")
def main(cfg: DictConfig) -> None:
    """Measure group by group, write after each, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    device = find_device(config["device"], config["cpu"]["cores"])
    campaign = _campaign(config, device)
    launch.begin((ROWS_FILE, SOLOS_FILE))
    print(f"{device.gpu_type}, shared by {SHARED_BY[device.how]}")
    measured: dict[Group, dict[int, Together]] = {}
    total = campaign.repeats * len(campaign.groups)
    with RunCount("measuring", total, unit="groups") as count:
        for group, round_, found in measure_all(campaign, launch.folder):
            measured.setdefault(group, {})[round_] = found
            rows, solos, odd = tables_of(measured, device)
            write_csv(launch.folder, rows, solos)
            count.tell(" + ".join(group.members))
    for group in odd:
        log.warning("%s: left out, faster than twice alone; measure on an idle machine",
                    " + ".join(group.members))  # fmt: skip
    table_console().print(_table(rows))
    print(f"results in {launch.folder}")


def _campaign(config: dict[str, Any], device: Device) -> Campaign:
    chosen = config[device.form]
    for key in ("profiles", "mixes"):
        if not isinstance(chosen[key], list):
            raise ConfigError(f"{device.form}.{key} is {chosen[key]!r}; it must be a list")
    if chosen["pairs"] != "all" and not isinstance(chosen["pairs"], list):
        raise ConfigError(f"{device.form}.pairs is {chosen['pairs']!r}; use all or a list of pairs")
    if not chosen["profiles"]:
        raise ConfigError(f"{device.form}.profiles is empty; name one at least, like mlp/32")
    groups = groups_to_measure(chosen["profiles"], chosen["pairs"], chosen["mixes"])
    keys = ("warmup_s", "measure_s", "least_steps", "patience_s")
    return Campaign(
        groups={group: _tasks(config, device, group) for group in groups},
        device=device,
        timing={key: config[key] for key in keys},
        repeats=config["repeats"],
    )


def _tasks(config: dict[str, Any], device: Device, group: Group) -> tuple[LoopTask, ...]:
    """One a member; equal ones draw different data."""
    tasks, makers = [], config["makers"]
    for seed, profile in enumerate(group.members, config["seed"]):
        model, batch = model_and_batch(profile)
        if model not in makers:
            raise MeasureError(
                f"profiles: no makers.{model}; there are {', '.join(makers)}. One of your own: "
                f"+makers.{model}=module.function"
            )
        tasks.append(LoopTask(profile, makers[model], batch, device.form, device.cores, seed))
    return tuple(tasks)


def _table(rows: CoRows) -> Table:
    """Groups of two and more; loops alone are at 1 by definition."""
    table = Table("victim", "beside", "normalised speed", title="Speed together over alone")
    for victim, others, speed in zip(rows.victim, rows.aggressors, rows.norm_speed, strict=True):
        if others:
            text = "does not fit" if np.isnan(speed) else f"{speed:.3f}"
            table.add_row(victim, " + ".join(others), text)
    return table
