"""Co-location rows of pairs from the columns of both sides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interference.rows import CoRows, objects
from sim.arrays import BoolArray, FloatArray, IntArray, TextArray


@dataclass(frozen=True)
class Sides:
    """M directed sides of pairs: who ran beside whom, and which line of the file told it."""

    line: IntArray  # (M,) row of the file
    victim: list[str]  # (M,)
    aggressor: list[str]  # (M,)
    norm_speed: FloatArray  # (M,)
    measured: BoolArray  # (M,)

    def take(self, index: IntArray | BoolArray) -> "Sides":
        """The sides of `index`."""
        at = np.arange(len(self.line))[index]
        return Sides(
            self.line[at],
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
        victim=[name for pair in zip(a, b, strict=True) for name in pair],
        aggressor=[name for pair in zip(b, a, strict=True) for name in pair],
        norm_speed=np.stack(speeds, axis=1).ravel(),
        measured=np.stack(measured, axis=1).ravel(),
    )


def pair_numbers(sides: Sides, gpu_type: Sequence[str]) -> IntArray:
    """(M,) group of each side: equal for (a, b) and (b, a) on one GPU type, numbered as they come.

    A pair that a file tells in two lines, one a direction, is one group all the same.
    """
    number: dict[tuple[str, str, str], int] = {}
    groups = []
    for line, a, b in zip(sides.line.tolist(), sides.victim, sides.aggressor, strict=True):
        groups.append(number.setdefault((gpu_type[line], min(a, b), max(a, b)), len(number)))
    return np.array(groups, dtype=np.int64)


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
        group=pair_numbers(sides, gpu_type),
        split=split[line],
        victim=objects(sides.victim),
        aggressors=objects([(name,) for name in sides.aggressor]),
        share=np.ones(n),
        norm_speed=sides.norm_speed,
        relative_to=objects(["solo"] * n),
        feasible=feasible[line],
        measured=sides.measured,
    )
