"""What is measured alone and together, what was found, and the files made of it."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from interference.measuring.device import Device, MeasureError, Use
from interference.measuring.together import LoopTask, Timing, Together
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

PAIR = 2
Groups = Sequence[Sequence[str]]


class Group(NamedTuple):
    """Profiles that run at the same time; one alone is measured to compare with."""

    number: int  # as in the rows
    members: tuple[str, ...]  # "model/batch", in the order of their names


def plan(profiles: Sequence[str], pairs: Groups | Literal["all"], mixes: Groups) -> list[Group]:
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
        told = f"has fewer than three profiles (see pairs) or more than {most}"
        raise MeasureError(f"mixes: {wrong[0]} {told}")
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


Rounds = Mapping[int, Together]  # by number of the round


def tables_of(
    measured: Mapping[Group, Rounds], device: Device
) -> tuple[CoRows, SoloProfiles, list[Group]]:
    """One row a loop of each group, the profiles that fit alone, and groups that say nothing.

    A group is feasible if it fitted in every round. What does not fit alone has no rows, and
    nothing beside it has any: a reader could not look up its solo profile. Nor has a group with a
    loop more than twice as fast as alone, where something else slowed it: it is given last.
    """
    fits = {g: all(each.feasible for each in rounds.values()) for g, rounds in measured.items()}
    alone = {
        group.members[0]: rounds
        for group, rounds in measured.items()
        if fits[group] and len(group.members) == 1
    }
    told = {
        group: _speeds(group, rounds, alone) if fits[group] else [math.nan] * len(group.members)
        for group, rounds in measured.items()
        if alone.keys() >= set(group.members)
    }
    odd = [group for group, speeds in told.items() if max(speeds) > HIGHEST_SPEED]
    rows = [
        (group.number, victim, group.members[:at] + group.members[at + 1 :], speeds[at])
        for group, speeds in told.items()
        if group not in odd
        for at, victim in enumerate(group.members)
    ]
    number, victims, beside, speed = zip(*rows, strict=True) if rows else ((),) * 4
    norm_speed = np.array(speed, np.float64)
    co = co_rows(
        source=f"own_{device.how}", gpu_type=device.gpu_type, group=np.array(number, np.int64),
        victim=victims, aggressors=beside, norm_speed=norm_speed, feasible=~np.isnan(norm_speed),
        measured=np.array([len(others) > 0 for others in beside], np.bool_),
    )  # fmt: skip
    return co, _solos(alone, device), odd


def _speeds(group: Group, rounds: Rounds, alone: Mapping[str, Rounds]) -> list[float]:
    """Of each loop together over alone, the median over rounds.

    Each round is compared with itself: a machine that drifts does so in both.
    """
    return [
        median(
            together.steps_per_s[at] / alone[victim][round_].steps_per_s[0]
            for round_, together in rounds.items()
        )
        for at, victim in enumerate(group.members)
    ]


def _solos(alone: Mapping[str, Rounds], device: Device) -> SoloProfiles:
    """Medians of step times over rounds, means of shares, the most memory."""
    steps_s, uses = [], []
    for rounds in alone.values():
        steps_s.append(median(1.0 / each.steps_per_s[0] for each in rounds.values()))
        found = [each.use for each in rounds.values() if each.use is not None]
        uses.append((
            fmean(use.gpu_util for use in found), fmean(use.gmem_util for use in found),
            max(use.gmem_mib for use in found),
        ))  # fmt: skip
    gpu_util, gmem_util, gmem_mib = np.array(uses, np.float64).reshape(-1, 3).T
    models = [model_and_batch(profile) for profile in alone]
    return solo_profiles(
        source=f"own_{device.how}", gpu_type=device.gpu_type, profile=list(alone),
        model=[model for model, _ in models], batch=np.array([n for _, n in models], np.int64),
        step_s=np.array(steps_s, np.float64), gpu_util=gpu_util, gmem_util=gmem_util,
        gmem_mib=gmem_mib,
    )  # fmt: skip
