"""Small folders in the form of the published sets, with numbers of a known law."""

import csv
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

JOBS = tuple((model, batch) for model in ("Big", "Mid", "Low") for batch in (8, 16, 32))
LOAD = {"Big": 0.6, "Mid": 0.4, "Low": 0.2, "Odd": 0.5}
KINDS = {"k80": 1.0, "v100": 0.5}  # how much a load matters there
GAVEL_HEADER = (
    "gpu_type", "model_a", "batch_a", "model_b", "batch_b", "iso_a", "iso_b", "norm_a", "norm_b",
    "feasible",
)  # fmt: skip


def speed(kind: str, aggressor: str) -> float:
    """Normalised speed beside a model."""
    return round(1.0 - LOAD[aggressor] * KINDS[kind], 3)


def gavel_pairs(jobs: Iterable[tuple[str, int]] = JOBS) -> list[list[object]]:
    """A line of gavel_pairs.csv for every pair of jobs on every type; all fit."""
    return [
        [kind, a, n, b, m, 1, 1, speed(kind, b), speed(kind, a), 1]
        for kind in KINDS
        for (a, n), (b, m) in combinations_with_replacement(list(jobs), 2)
    ]


def gavel_folder(folder: Path, pairs: Sequence[Sequence[object]]) -> Path:
    """These pairs, and a run alone of each job and of Odd, which has no batch."""
    write_rows(folder / "colocation" / "gavel_pairs.csv", GAVEL_HEADER, pairs)
    header = ("gpu_type", "consolidated", "model", "batch_size", "num_gpus", "steps_per_s")
    alone = [
        [kind, 1, model, batch, 1, 40 * LOAD[model] + batch / KINDS[kind]]
        for kind in KINDS
        for model, batch in (*JOBS, ("Odd", 0))
    ]
    write_rows(folder / "throughput" / "gavel_isolated.csv", header, alone)
    return folder


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """A file of these columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return path
