"""Rows of pairs, solo profiles and names of profiles from the columns of a source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.row_rules import Fault
from interference.rows import SOLO_TYPES, CoRows, SoloProfiles
from sim.arrays import BoolArray, FloatArray, IntArray, TextArray, objects


@dataclass(frozen=True)
class Sides:
    """M directed sides of pairs: who ran beside whom, and which line of the file told it."""

    line: IntArray  # (M,) row of the file
    side: IntArray  # (M,) 0 where the victim is the line's first job, 1 where it is the second
    victim: list[str]  # (M,)
    aggressor: list[str]  # (M,)
    norm_speed: FloatArray  # (M,)
    measured: BoolArray  # (M,)

    def take(self, index: IntArray | BoolArray) -> "Sides":
        """The sides of `index`."""
        at = np.arange(len(self.line))[index]
        return Sides(
            self.line[at],
            self.side[at],
            [self.victim[i] for i in at],
            [self.aggressor[i] for i in at],
            self.norm_speed[at],
            self.measured[at],
        )


def both_sides(
    *,
    profiles: tuple[Sequence[str], Sequence[str]],
    speeds: tuple[FloatArray, FloatArray],
    measured: tuple[BoolArray, BoolArray],
) -> Sides:
    """Two sides a line, a then b; the lines stay in order."""
    (a, b), n = profiles, len(profiles[0])
    return Sides(
        line=np.repeat(np.arange(n), 2),
        side=np.tile([0, 1], n),
        victim=[name for pair in zip(a, b, strict=True) for name in pair],
        aggressor=[name for pair in zip(b, a, strict=True) for name in pair],
        norm_speed=np.stack(speeds, axis=1).ravel(),
        measured=np.stack(measured, axis=1).ravel(),
    )


def pair_numbers(sides: Sides, gpu_type: Sequence[str], split: TextArray) -> IntArray:
    """(M,) group of each side: equal for (a, b) and (b, a) on one GPU type, numbered as they come.

    A pair that a file tells in two lines, one a direction, is one group all the same, unless the
    file puts the two into different splits.
    """
    number: dict[tuple[str, str, str, str], int] = {}
    groups = []
    for line, a, b in zip(sides.line.tolist(), sides.victim, sides.aggressor, strict=True):
        key = gpu_type[line], split[line], min(a, b), max(a, b)
        groups.append(number.setdefault(key, len(number)))
    return np.array(groups, dtype=np.int64)


def in_the_file(
    sides: Sides, columns: Mapping[str, tuple[str, str]], solos: Path
) -> Callable[[Fault], str]:
    """What to add to a fault of these sides: the file's own column, and where solo profiles are.

    Args:
        sides: the rows that a fault numbers.
        columns: column of the schema -> the file's, for victims that are first and second jobs.
        solos: file of the runs alone.
    """

    def words(fault: Fault) -> str:
        if fault.column not in columns:
            return ""
        told = f" (column {columns[fault.column][sides.side[fault.row]]}"
        if fault.column in ("victim", "aggressors"):
            told += f"; runs alone are in {solos}"
        return f"{told})"

    return words


def co_rows_of(
    sides: Sides,
    *,
    source: str,
    gpu_type: Sequence[str],
    sharing: str,
    split: TextArray,
    feasible: BoolArray,
) -> CoRows:
    """The sides as rows; `gpu_type`, `split` and `feasible` are of the file's lines."""
    n, line = len(sides.line), sides.line
    return CoRows(
        source=objects([source] * n),
        gpu_type=objects(gpu_type)[line],
        sharing=objects([sharing] * n),
        group=pair_numbers(sides, gpu_type, split),
        split=split[line],
        victim=objects(sides.victim),
        aggressors=objects([(name,) for name in sides.aggressor]),
        share=np.ones(n),
        norm_speed=sides.norm_speed,
        relative_to=objects(["solo"] * n),
        feasible=feasible[line],
        measured=sides.measured,
    )


NUMBERS = tuple(name for name, kind in SOLO_TYPES.items() if kind is np.float64)


def solo_profiles(
    *,
    source: str,
    gpu_type: Sequence[str] | str,
    profile: Sequence[str],
    model: Sequence[str],
    batch: IntArray,
    gpus: IntArray | int = 1,
    nodes: IntArray | int = 1,
    amp: BoolArray | bool = False,
    **known: FloatArray,
) -> SoloProfiles:
    """One row a profile; `known` holds the columns of numbers that the source has."""
    n = len(profile)
    types = [gpu_type] * n if isinstance(gpu_type, str) else gpu_type
    return SoloProfiles(
        source=objects([source] * n),
        gpu_type=objects(types),
        profile=objects(profile),
        model=objects(model),
        batch=batch,
        amp=np.broadcast_to(amp, n).astype(np.bool_),
        gpus=np.broadcast_to(gpus, n).astype(np.int64),
        nodes=np.broadcast_to(nodes, n).astype(np.int64),
        **{name: known.get(name, np.full(n, np.nan)) for name in NUMBERS},
    )


def profile_name(model: str, batch: int | None = None, *marks: str) -> str:
    """`model/batch@mark@mark`; a batch of None is left out, and so is an empty mark."""
    base = model if batch is None else f"{model}/{batch}"
    return "@".join([base, *(mark for mark in marks if mark)])
