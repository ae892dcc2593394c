"""What is measured alone and together, what was found, and the files made of it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from interference.measuring.together import Device, LoopTask, MeasureError, Timing, Together, Use
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
