"""Readers of Gavel's measured files: isolated speeds and co-located pairs (csv, one row a fact)."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.errors import PhysicsError

PAIRS_FILE = Path("colocation", "gavel_pairs.csv")
ISOLATED_FILE = Path("throughput", "gavel_isolated.csv")


@dataclass(frozen=True)
class IsolatedSpeed:
    """Measured speed of one profile alone."""

    gpu_type: str
    profile: str  # "model/batch"
    num_gpus: int
    consolidated: bool  # all GPUs on one server; else spread
    steps_per_s: float  # 0 = did not run


@dataclass(frozen=True)
class ColocatedPair:
    """Two single-GPU jobs on one GPU, in no particular order; speeds are fractions of solo."""

    gpu_type: str
    profile_a: str
    profile_b: str
    solo_a_s: float  # seconds a step alone
    solo_b_s: float
    norm_a: float  # co-located / isolated speed; NaN where infeasible
    norm_b: float
    feasible: bool


def profile_name(model: str, batch: str) -> str:
    """The catalogue's name of a model with a batch size: "model/batch"."""
    return f"{model}/{int(batch)}"


def profile_key(name: str) -> tuple[str, int]:
    """Sort key of a profile name: model, then batch as a number."""
    model, _, batch = name.rpartition("/")
    return model, int(batch)


def read_isolated(data_dir: Path | str) -> list[IsolatedSpeed]:
    """All isolated speeds below `data_dir`; PhysicsError names file, line and value."""
    return [
        IsolatedSpeed(
            gpu_type=row["gpu_type"],
            profile=profile_name(row["model"], row["batch_size"]),
            num_gpus=int(row["num_gpus"]),
            consolidated=row["consolidated"] == "1",
            steps_per_s=float(row["steps_per_s"]),
        )
        for row in _checked_rows(Path(data_dir) / ISOLATED_FILE, "steps_per_s")
    ]


def read_pairs(data_dir: Path | str) -> list[ColocatedPair]:
    """All co-located pairs below `data_dir`; PhysicsError names file, line and value."""
    pairs = []
    for row in _checked_rows(Path(data_dir) / PAIRS_FILE, "iso_a", "iso_b"):
        feasible = row["feasible"] == "1"
        pairs.append(
            ColocatedPair(
                gpu_type=row["gpu_type"],
                profile_a=profile_name(row["model_a"], row["batch_a"]),
                profile_b=profile_name(row["model_b"], row["batch_b"]),
                solo_a_s=1.0 / float(row["iso_a"]),
                solo_b_s=1.0 / float(row["iso_b"]),
                norm_a=float(row["norm_a"]) if feasible else float("nan"),
                norm_b=float(row["norm_b"]) if feasible else float("nan"),
                feasible=feasible,
            )
        )
    return pairs


def _checked_rows(path: Path, *speeds: str) -> Iterator[dict[str, str]]:
    """Rows of `path` as text by column; the columns `speeds` must hold numbers of 0 or more."""
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no such file; set data_dir (or GPUYARD_DATA) to the folder of the measured "
            "data, or use the shipped profiles and interference"
        )
    with path.open(newline="", encoding="utf-8") as stream:
        for line, row in enumerate(csv.DictReader(stream), start=2):
            for column in speeds:
                _check_speed(row.get(column), f"{path}:{line}: {column}")
            yield row


def _check_speed(text: str | None, place: str) -> None:
    try:
        value = float(text) if text is not None else float("nan")
    except ValueError:
        value = float("nan")
    if not value >= 0.0:
        raise PhysicsError(f"{place} is {text!r}; expected a speed of 0 or more steps a second")
