"""What is measured alone and together, what was found, and the files made of it."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from interference.measuring.device import Device, LoopTask, MeasureError, Use
from interference.measuring.together import Timing, Together
from sim.errors import nearest
from sim.files import csv_text, write_atomically

PAIR = 2
Groups = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Group:
    """Profiles that run at the same time; one alone is measured to compare with."""

    number: int  # as in the rows
    members: tuple[str, ...]  # "model/batch", in the order of their names

    @property
    def alone(self) -> bool:
        """Whether there is nobody else."""
        return len(self.members) == 1


def plan(profiles: Sequence[str], pairs: Groups | Literal["all"], mixes: Groups) -> list[Group]:
    """Every profile alone, then pairs, then larger mixes; each once.

    Args:
        profiles: "model/batch".
        pairs: of profiles, or "all" of them, each profile beside itself included.
        mixes: of three profiles or more.

    Raises:
        MeasureError: naming the key and the profile or the group that cannot be.
    """
    for name in profiles:
        batch_of(name)
    chosen = list(combinations_with_replacement(profiles, PAIR)) if pairs == "all" else pairs
    for members in chosen:
        if len(members) != PAIR:
            raise MeasureError(f"pairs: {list(members)} has not two profiles; see mixes")
    for members in mixes:
        if len(members) <= PAIR:
            raise MeasureError(f"mixes: {list(members)} has fewer than three profiles; see pairs")
    for members in (*chosen, *mixes):
        _check_known(members, profiles)
    groups = [*((name,) for name in profiles), *(tuple(sorted(m)) for m in (*chosen, *mixes))]
    return [Group(number, members) for number, members in enumerate(dict.fromkeys(groups))]


def batch_of(profile: str) -> int:
    """The batch size in "model/batch".

    Raises:
        MeasureError: there is none.
    """
    model, slash, batch = profile.rpartition("/")
    if not (model and slash and batch.isdigit() and int(batch) > 0) or "+" in model:
        raise MeasureError(f"profiles: {profile!r} is no model/batch without a +, like mlp/32")
    return int(batch)


def model_of(profile: str) -> str:
    """The model in "model/batch"."""
    return profile.rpartition("/")[0]


def _check_known(members: Sequence[str], profiles: Sequence[str]) -> None:
    for name in members:
        if name not in profiles:
            hint = nearest(name, profiles) or f"; there are {', '.join(profiles)}"
            raise MeasureError(f"{list(members)}: {name!r} is not among profiles{hint}")


@dataclass(frozen=True)
class Result:
    """One group, once."""

    number: int  # of the group
    members: tuple[str, ...]
    round: int
    together: Together


def part_name(
    tasks: tuple[LoopTask, ...], timing: Timing, *, gpu_type: str, how: str, round_: int
) -> str:
    """A name that two measurements share if they are the same one.

    The code of a model does not count; the version of PyTorch does.
    """
    decides = [
        [asdict(task) for task in tasks], asdict(timing), gpu_type, how, round_, version("torch"),
    ]  # fmt: skip
    return f"{hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:32]}.json"


def write_part(path: Path, result: Result) -> None:
    """Store one measured group, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(result), indent=1).encode())


def read_part(path: Path, number: int) -> Result | None:
    """A stored group under the number that it has now; None where there is none.

    Raises:
        MeasureError: the file is no measured group.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        held = json.loads(text)
        found = held["together"]
        use = None if found["use"] is None else Use(**found["use"])
        speeds, busy = tuple(found["steps_per_s"]), tuple(found["busy"])
        together = Together(**{**found, "use": use, "steps_per_s": speeds, "busy": busy})
        return Result(number, tuple(held["members"]), held["round"], together)
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"{path} is no measured group; remove it to measure again") from None


SHARING = "gpu"  # loops that have one whole device between them
Alone = Mapping[tuple[int, str], float]  # (round, profile) -> steps a second


@dataclass(frozen=True)
class Row:
    """One loop of one group; the names are the columns of the file."""

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


@dataclass(frozen=True)
class Solo:
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


def rows_of(results: Sequence[Result], device: Device) -> list[Row]:
    """One row a loop of each group: the median over rounds of its speed together over alone.

    A group is feasible if it fitted in every round. What does not fit alone has no rows, and
    nothing beside it has any: a reader could not look up its solo profile.
    """
    alone = _alone(results)
    return [
        Row(
            source=_source(device),
            gpu_type=device.gpu_type,
            sharing=SHARING,
            group=rounds[0].number,
            split="",
            victim=victim,
            aggressors=members[:place] + members[place + 1 :],
            share=1.0,
            norm_speed=_norm_speed(rounds, place, alone),
            feasible=_feasible(rounds),
            measured=len(members) > 1,
        )
        for rounds in _by_group(results)
        for members in [rounds[0].members]
        for place, victim in enumerate(members)
        if all((rounds[0].round, member) in alone for member in members)
    ]


def solos_of(results: Sequence[Result], device: Device) -> list[Solo]:
    """The profiles that fit alone, medians over rounds."""
    return [
        Solo(
            source=_source(device),
            gpu_type=device.gpu_type,
            profile=name,
            model=model_of(name),
            batch=batch_of(name),
            step_s=median(1.0 / result.together.steps_per_s[0] for result in rounds),
            gpus=1,
            nodes=1,
            **_use(rounds, device),
        )
        for rounds in _by_group(results)
        for name in rounds[0].members[:1]
        if len(rounds[0].members) == 1 and _feasible(rounds)
    ]


def _source(device: Device) -> str:
    """Says that the rows are one's own, and what made the loops share."""
    return f"own_{device.how}"


def _alone(results: Sequence[Result]) -> Alone:
    """Speeds of the profiles that fit alone in every round."""
    return {
        (result.round, result.members[0]): result.together.steps_per_s[0]
        for rounds in _by_group(results)
        for result in rounds
        if len(result.members) == 1 and _feasible(rounds)
    }


def _norm_speed(rounds: Sequence[Result], place: int, alone: Alone) -> float:
    """Each round is compared with itself: a machine that drifts does so in both."""
    if not _feasible(rounds):
        return math.nan
    victim = rounds[0].members[place]
    return median(r.together.steps_per_s[place] / alone[r.round, victim] for r in rounds)


def _use(rounds: Sequence[Result], device: Device) -> dict[str, float]:
    """Use of the device by a loop alone, mean over rounds; NaN where unknown."""
    if device.form == "cpu":
        cores = max(len(device.cores), 1)
        busy = fmean(result.together.busy[0] for result in rounds) / cores
        return {"gpu_util": min(busy, 1.0), "gmem_util": math.nan, "gmem_mib": math.nan}
    uses = [result.together.use for result in rounds if result.together.use is not None]
    if not uses:
        return dict.fromkeys(("gpu_util", "gmem_util", "gmem_mib"), math.nan)
    return {
        "gpu_util": fmean(use.gpu_util for use in uses),
        "gmem_util": fmean(use.gmem_util for use in uses),
        "gmem_mib": max(use.gmem_mib for use in uses),
    }


def _feasible(rounds: Sequence[Result]) -> bool:
    return all(result.together.feasible for result in rounds)


def _by_group(results: Sequence[Result]) -> list[list[Result]]:
    """The rounds of each group, in the order of the groups' numbers."""
    groups: dict[int, list[Result]] = {}
    for result in results:
        groups.setdefault(result.number, []).append(result)
    return [groups[number] for number in sorted(groups)]


ROWS_FILE, SOLOS_FILE = "colocation.csv", "solo_profiles.csv"
JOIN = "+"


def write_table(path: Path, kind: type[Row | Solo], records: Sequence[Row | Solo]) -> None:
    """Records of one kind, rows of co-location or solo profiles; the columns are there always."""
    columns = [each.name for each in fields(kind)]
    rows = ([_cell(getattr(each, name)) for name in columns] for each in records)
    write_atomically(path, csv_text(columns, rows).encode())


def _cell(value: object) -> str:
    """Booleans as 1 and 0, nothing for a number that is not known."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return JOIN.join(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)
