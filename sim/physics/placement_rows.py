"""Measured step times by placement: Sia's profiles."""

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.errors import PhysicsError

SIA_FILE = Path("throughput", "sia_placements.csv.gz")
COMPUTED_APPS = ("gpt_pmp",)  # its step_time is the same for every placement: not a measured step


@dataclass(frozen=True)
class MeasuredStep:
    """One job alone on one placement."""

    source: str
    app: str
    gpu_type: str  # as the source names it
    placement: tuple[int, ...]  # GPUs on each server used
    batch: int  # samples a GPU and step; 0 where the file does not say
    step_s: float


def read_sia(data_dir: Path) -> list[MeasuredStep]:
    """Pollux and Sia profiles: one digit of `placement` a server."""
    path = data_dir / SIA_FILE
    steps = []
    for place, row in _csv_rows(path):
        if row.get("app") in COMPUTED_APPS:
            continue
        placement = _placement(row.get("placement"), place)
        batch = int(_positive(row, "local_bsz", place))
        step_s = _positive(row, "step_time", place)
        steps.append(MeasuredStep("sia", row["app"], row["gpu_type"], placement, batch, step_s))
    return steps


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Place (file and line) and row of a csv file, plain or gzip."""
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no such file; set data_dir (or GPUYARD_DATA) to the folder of the measured "
            "data"
        )
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    for line, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        yield f"{path}:{line}", row


def _placement(text: str | None, place: str) -> tuple[int, ...]:
    """GPUs on each server from one digit a server."""
    if not text or not set(text) <= set("123456789"):
        raise PhysicsError(f"{place}: placement is {text!r}; expected digits from 1 to 9")
    return tuple(int(digit) for digit in text)


def _positive(row: dict[str, str], column: str, place: str) -> float:
    """A number above 0 in `column`; PhysicsError names place and value."""
    try:
        value = float(row[column])
    except (KeyError, TypeError, ValueError):
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise PhysicsError(f"{place}: {column} is {row.get(column)!r}; expected a number above 0")
    return value
