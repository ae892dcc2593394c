"""Co-location rows: who ran beside whom on which GPU type, and how fast it still was."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.gavel_files import profile_key, read_pairs

CSV_COLUMNS = (
    "gpu_type",
    "victim",
    "aggressor",
    "victim_solo_s",
    "aggressor_solo_s",
    "norm_speed",
    "feasible",
)


@dataclass(frozen=True)
class ColocationRows:
    """N directed rows: the victim's speed beside the aggressor, over P profiles and T GPU types."""

    gpu_types: tuple[str, ...]
    profiles: tuple[str, ...]  # "model/batch"
    solo_s: FloatArray  # (P, T) seconds a step alone; NaN where unknown
    gpu_type: IntArray  # (N,)
    victim: IntArray  # (N,)
    aggressor: IntArray  # (N,)
    pair: IntArray  # (N,) one number for {victim, aggressor}: both directions and all GPU types
    norm_speed: FloatArray  # (N,) co-located / isolated speed; NaN where infeasible
    feasible: BoolArray  # (N,) False: the pair did not fit into memory
    source: str  # "measured", "generated" or "query"

    def __len__(self) -> int:
        """N."""
        return len(self.victim)

    def take(self, index: IntArray | BoolArray) -> "ColocationRows":
        """The rows of `index`, over the same profiles and GPU types."""
        return replace(
            self,
            gpu_type=self.gpu_type[index],
            victim=self.victim[index],
            aggressor=self.aggressor[index],
            pair=self.pair[index],
            norm_speed=self.norm_speed[index],
            feasible=self.feasible[index],
        )


@dataclass(frozen=True)
class DirectedRow:
    """One direction of a pair, by name."""

    gpu_type: str
    victim: str
    aggressor: str
    victim_solo_s: float
    aggressor_solo_s: float
    norm_speed: float
    feasible: bool


def rows_from(directed: list[DirectedRow], source: str) -> ColocationRows:
    """Number names and pairs; solo times of one profile and type are averaged."""
    if not directed:
        raise PhysicsError(f"{source} co-location rows: there are none; give at least one row")
    gpu_types = tuple(sorted({row.gpu_type for row in directed}))
    names = {row.victim for row in directed} | {row.aggressor for row in directed}
    profiles = tuple(sorted(names, key=profile_key))
    type_index = {name: i for i, name in enumerate(gpu_types)}
    index = {name: i for i, name in enumerate(profiles)}
    victim = np.array([index[row.victim] for row in directed])
    aggressor = np.array([index[row.aggressor] for row in directed])
    gpu_type = np.array([type_index[row.gpu_type] for row in directed])
    solo_sum, solo_count = np.zeros((2, len(profiles), len(gpu_types)))
    for role, column in ((victim, "victim_solo_s"), (aggressor, "aggressor_solo_s")):
        np.add.at(solo_sum, (role, gpu_type), [getattr(row, column) for row in directed])
        np.add.at(solo_count, (role, gpu_type), 1.0)
    return ColocationRows(
        gpu_types=gpu_types,
        profiles=profiles,
        solo_s=np.where(solo_count > 0, solo_sum / np.maximum(solo_count, 1.0), np.nan),
        gpu_type=gpu_type,
        victim=victim,
        aggressor=aggressor,
        pair=pair_number(victim, aggressor, len(profiles)),
        norm_speed=np.array([row.norm_speed for row in directed]),
        feasible=np.array([row.feasible for row in directed], dtype=np.bool_),
        source=source,
    )


def pair_number(victim: IntArray, aggressor: IntArray, profiles: int) -> IntArray:
    """(N,) equal for (a, b) and (b, a)."""
    return np.minimum(victim, aggressor) * profiles + np.maximum(victim, aggressor)


def gavel_rows(data_dir: Path | str) -> ColocationRows:
    """Both directions of Gavel's pairs; a profile beside itself is one row."""
    directed = []
    for p in read_pairs(data_dir):
        a, b = p.profile_a, p.profile_b
        directed.append(DirectedRow(p.gpu_type, a, b, p.solo_a_s, p.solo_b_s, p.norm_a, p.feasible))
        if a != b:
            directed.append(
                DirectedRow(p.gpu_type, b, a, p.solo_b_s, p.solo_a_s, p.norm_b, p.feasible)
            )
    return rows_from(directed, "measured")


def csv_rows(path: Path | str) -> ColocationRows:
    """A user's file with the columns `CSV_COLUMNS`, one directed row a line.

    `norm_speed` may be empty where `feasible` is 0. PhysicsError names file, line, column.
    """
    path = Path(path)
    if not path.is_file():
        raise PhysicsError(f"{path}: no such file of co-location rows")
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        missing = [column for column in CSV_COLUMNS if column not in (reader.fieldnames or [])]
        if missing:
            raise PhysicsError(f"{path}:1: no column {missing[0]!r}; needed are {CSV_COLUMNS}")
        directed = [_directed(row, f"{path}:{line}") for line, row in enumerate(reader, start=2)]
    return rows_from(directed, "measured")


def _directed(row: dict[str, str], place: str) -> DirectedRow:
    feasible = row["feasible"] != "0"
    for column in ("victim", "aggressor"):
        _, slash, batch = row[column].rpartition("/")
        if not slash or not batch.isdigit():
            raise PhysicsError(f"{place}: {column} is {row[column]!r}; expected model/batch")
    return DirectedRow(
        gpu_type=row["gpu_type"],
        victim=row["victim"],
        aggressor=row["aggressor"],
        victim_solo_s=_positive(row["victim_solo_s"], f"{place}: victim_solo_s"),
        aggressor_solo_s=_positive(row["aggressor_solo_s"], f"{place}: aggressor_solo_s"),
        norm_speed=_positive(row["norm_speed"], f"{place}: norm_speed") if feasible else np.nan,
        feasible=feasible,
    )


def _positive(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value > 0.0):
        raise PhysicsError(f"{place} is {text!r}; expected a number above 0")
    return value
