"""Measured step times by placement: Sia's and Gavel's profiles, DeepShare's throughputs."""

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.errors import PhysicsError
from sim.physics.gavel_files import read_isolated

SIA_FILE = Path("throughput", "sia_placements.csv.gz")
DEEPSHARE_FILE = Path("throughput", "deepshare_isolated.csv")
COMPUTED_APPS = ("gpt_pmp",)  # its step_time is the same for every placement: not a measured step
UNNAMED_GPU = "unnamed"  # DeepShare's file does not say


@dataclass(frozen=True)
class MeasuredStep:
    """One job alone on one placement."""

    source: str  # sia, gavel, deepshare
    app: str
    gpu_type: str  # as the source names it
    placement: tuple[int, ...]  # GPUs on each server used
    batch: int  # samples a GPU and step; 0 where the file does not say
    step_s: float


def read_sia(data_dir: Path) -> list[MeasuredStep]:
    """Pollux and Sia profiles: one digit of `placement` a server."""
    path = data_dir / SIA_FILE
    steps = []
    for place, row in csv_rows(path):
        if row.get("app") in COMPUTED_APPS:
            continue
        placement = _placement(row.get("placement"), place)
        batch = int(positive(row, "local_bsz", place))
        step_s = positive(row, "step_time", place)
        steps.append(MeasuredStep("sia", row["app"], row["gpu_type"], placement, batch, step_s))
    return steps


def read_gavel(data_dir: Path) -> list[MeasuredStep]:
    """Gavel's isolated speeds; spread means one GPU a server. Steps are those of one worker."""
    return [
        MeasuredStep(
            source="gavel",
            app=speed.profile,
            gpu_type=speed.gpu_type,
            placement=(speed.num_gpus,) if speed.consolidated else (1,) * speed.num_gpus,
            batch=0,
            step_s=speed.num_gpus / speed.steps_per_s,
        )
        for speed in read_isolated(data_dir)
        if speed.steps_per_s > 0 and (speed.consolidated or speed.num_gpus > 1)
    ]


def read_deepshare(data_dir: Path) -> list[MeasuredStep]:
    """DeepShare's throughputs, GPUs even over nodes.

    Its samples are of very different sizes and its batches are not told, so that a step is what
    each GPU does in one second on the model's first row.
    """
    steps = []
    first_s: dict[str, float] = {}
    for place, row in csv_rows(data_dir / DEEPSHARE_FILE):
        gpus, nodes = int(positive(row, "gpus", place)), int(positive(row, "nodes", place))
        if gpus % nodes:
            raise PhysicsError(f"{place}: {gpus} GPUs on {nodes} nodes; expected equal shares")
        sample_s = gpus / positive(row, "samples_per_s", place)
        step_s = sample_s / first_s.setdefault(row["model"], sample_s)
        placement = (gpus // nodes,) * nodes
        steps.append(MeasuredStep("deepshare", row["model"], UNNAMED_GPU, placement, 0, step_s))
    return steps


READERS = {"sia": read_sia, "gavel": read_gavel, "deepshare": read_deepshare}


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
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


def positive(row: dict[str, str], column: str, place: str) -> float:
    """A number above 0 in `column`; PhysicsError names place and value."""
    try:
        value = float(row[column])
    except (KeyError, TypeError, ValueError):
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise PhysicsError(f"{place}: {column} is {row.get(column)!r}; expected a number above 0")
    return value
