"""Rows of co-location and solo profiles from what was measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from interference.measuring.device import Device
from interference.measuring.plan import batch_of, model_of
from interference.measuring.result import Result

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
