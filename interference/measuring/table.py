"""What is measured alone and together, what was found, and the files made of it."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from interference.measuring.device import Device, MeasureError, Use
from interference.measuring.together import LoopTask, Timing, Together
from interference.rows import JOIN
from sim.errors import nearest
from sim.files import csv_text, write_atomically

PAIR = 2
Groups = Sequence[Sequence[str]]


class Group(NamedTuple):
    """Profiles that run at the same time; one alone is measured to compare with."""

    number: int  # as in the rows
    members: tuple[str, ...]  # "model/batch", in the order of their names


def plan(profiles: Sequence[str], pairs: Groups | Literal["all"], mixes: Groups) -> list[Group]:
    """Every profile alone, then pairs (or "all" of them), then mixes of three and more; each once.

    Raises:
        MeasureError: naming the key and the profile or the group that cannot be.
    """
    for name in profiles:
        model_and_batch(name)
    chosen = list(combinations_with_replacement(profiles, PAIR)) if pairs == "all" else pairs
    if wrong := [list(members) for members in chosen if len(members) != PAIR]:
        raise MeasureError(f"pairs: {wrong[0]} has not two profiles; see mixes")
    if wrong := [list(members) for members in mixes if len(members) <= PAIR]:
        raise MeasureError(f"mixes: {wrong[0]} has fewer than three profiles; see pairs")
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
class Result:
    """One group, once."""

    number: int  # of the group
    members: tuple[str, ...]
    round: int
    together: Together


def part_name(tasks: Sequence[LoopTask], timing: Timing, device: Device, round_: int) -> str:
    """A name that two measurements share if they are the same one.

    The code of a model does not count; the version of PyTorch does.
    """
    loops, shared = [asdict(task) for task in tasks], (device.gpu_type, device.how)
    decides = [loops, timing, *shared, round_, version("torch")]
    return f"{hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:32]}.json"


def write_part(path: Path, result: Result) -> None:
    """Store one measured group, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(result), indent=1).encode())


def read_part(path: Path, number: int) -> Result | None:
    """A stored group under its number of now, or None; a MeasureError if the file is no group."""
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        found = held["together"]
        found["use"] = None if found["use"] is None else Use(**found["use"])
        found |= {key: tuple(found[key]) for key in ("steps_per_s", "busy")}
        return Result(number, tuple(held["members"]), held["round"], Together(**found))
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"{path} is no measured group; remove it to measure again") from None


ROWS_FILE, SOLOS_FILE = "colocation.csv", "solo_profiles.csv"


class Row(NamedTuple):
    """One loop of one group; the names are the columns of the file (`interference.rows`)."""

    source: str
    gpu_type: str
    sharing: str
    group: int
    split: str
    victim: str
    aggressors: tuple[str, ...]
    share: float
    norm_speed: float  # NaN where infeasible
    feasible: bool
    measured: bool  # False for a loop alone: 1 by definition


class Solo(NamedTuple):
    """One profile alone; the names are the columns of the file."""

    source: str
    gpu_type: str
    profile: str
    model: str
    batch: int
    step_s: float
    gpu_util: float  # 0..1, of the cores where the device is the CPU
    gmem_util: float
    gmem_mib: float
    gpus: int
    nodes: int


def rows_of(results: Iterable[Result], device: Device) -> list[Row]:
    """One row a loop of each group: the median over rounds of its speed together over alone.

    A group is feasible if it fitted in every round. What does not fit alone has no rows, and
    nothing beside it has any: a reader could not look up its solo profile. Each round is compared
    with itself: a machine that drifts does so in both.
    """
    fitting = _fitting(results)
    alone = {
        group.members[0]: rounds
        for group, rounds in fitting.items()
        if rounds and len(group.members) == 1
    }
    rows = []
    for (number, members), rounds in fitting.items():
        if any(member not in alone for member in members):
            continue
        for place, victim in enumerate(members):
            speeds = [
                together.steps_per_s[place] / alone[victim][round_].steps_per_s[0]
                for round_, together in rounds.items()
            ] or [math.nan]
            rows.append(
                Row(
                    f"own_{device.how}", device.gpu_type, "gpu", number, "",
                    victim, members[:place] + members[place + 1 :], 1.0, median(speeds),
                    feasible=bool(rounds), measured=len(members) > 1,
                )
            )  # fmt: skip
    return rows


def solos_of(results: Iterable[Result], device: Device) -> list[Solo]:
    """The profiles that fit alone, medians over rounds."""
    solos = []
    for (_, (profile, *others)), rounds in _fitting(results).items():
        if rounds and not others:
            step_s = median(1.0 / each.steps_per_s[0] for each in rounds.values())
            use = _use(list(rounds.values()), device)
            solos.append(
                Solo(
                    f"own_{device.how}", device.gpu_type, profile, *model_and_batch(profile),
                    step_s, use.gpu_util, use.gmem_util, use.gmem_mib, gpus=1, nodes=1,
                )
            )  # fmt: skip
    return solos


def _fitting(results: Iterable[Result]) -> dict[Group, dict[int, Together]]:
    """The rounds of each group, in order of number; none of a group that once did not fit."""
    groups: dict[Group, dict[int, Together]] = {}
    for each in sorted(results, key=lambda each: each.number):
        groups.setdefault(Group(each.number, each.members), {})[each.round] = each.together
    fits = {
        group: all(each.feasible for each in rounds.values()) for group, rounds in groups.items()
    }
    return {group: rounds if fits[group] else {} for group, rounds in groups.items()}


def _use(rounds: Sequence[Together], device: Device) -> Use:
    """Of the device by a loop alone, over all rounds."""
    if device.form == "cpu":
        busy = fmean(each.busy[0] for each in rounds) / max(len(device.cores), 1)
        return Use(min(busy, 1.0), math.nan, math.nan)
    uses = [each.use for each in rounds if each.use is not None]
    gpu, memory = fmean(use.gpu_util for use in uses), fmean(use.gmem_util for use in uses)
    return Use(gpu, memory, max(use.gmem_mib for use in uses))


def write_table(path: Path, columns: Sequence[str], lines: Iterable[Iterable[Any]]) -> None:
    """One of the two files; the columns are there always."""
    write_atomically(path, csv_text(columns, (map(_cell, line) for line in lines)).encode())


def _cell(value: Any) -> str:
    """Booleans as 1 and 0, nothing for a number that is not known."""
    if isinstance(value, tuple):
        return JOIN.join(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(int(value) if isinstance(value, bool) else value)
