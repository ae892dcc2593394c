"""What a model is worst at: single rows, and victims by model."""

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from interference.evaluation.held_out import HeldOut
from interference.report.results import HELD_OUT_PAIRS, Results
from interference.rows import SoloProfiles
from sim.arrays import TextArray

MOST = 10


@dataclass(frozen=True)
class WorstRow:
    """One prediction; the names are columns of a file."""

    data_set: str
    split: str
    gpu_type: str
    victim: str
    aggressors: str
    measured: float
    predicted: float
    sd: float


@dataclass(frozen=True)
class VictimModel:
    """Errors over all rows of one victim's model; the names are columns of a file."""

    data_set: str
    split: str
    victim_model: str
    rows: int
    mae: float
    bias: float  # mean of predicted - measured


def worst_rows(results: Results, *, most: int = MOST) -> list[WorstRow]:
    """The largest errors over all data sets, on held-out pairs and rows of files."""
    found = [
        row
        for data_set in results.judged
        for split, held in results.of_drawn(data_set)
        if split == HELD_OUT_PAIRS or results.is_of_files(data_set, split)
        for row in _worst(data_set, split, held, most)
    ]
    return sorted(found, key=lambda row: -abs(row.predicted - row.measured))[:most]


def by_victim_model(results: Results) -> list[VictimModel]:
    """Every data set, split and model, worst of each split first."""
    found = []
    for data_set in results.judged:
        for split, held in results.of_drawn(data_set):
            victims = _victim_models(held, results.solos[data_set])
            error = held.told.norm_speed - held.rows.norm_speed
            told = []
            for name in sorted(set(victims)):
                own = error[victims == name]
                told.append(VictimModel(data_set, split, name, len(own),
                                        float(np.abs(own).mean()), float(own.mean())))  # fmt: skip
            found += sorted(told, key=lambda each: -each.mae)
    return found


def csv_of(rows: Sequence[WorstRow] | Sequence[VictimModel]) -> str:
    """A header and a line a row, or nothing where there are none."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows[:1]:
        writer.writerow([field.name for field in fields(row)])
    writer.writerows([_cell(value) for value in astuple(row)] for row in rows)
    return stream.getvalue()


def _worst(data_set: str, split: str, held: HeldOut, most: int) -> list[WorstRow]:
    rows, told = held.rows, held.told
    error = np.abs(told.norm_speed - rows.norm_speed)
    return [
        WorstRow(
            data_set,
            split,
            rows.gpu_type[at],
            rows.victim[at],
            " + ".join(rows.aggressors[at]),
            float(rows.norm_speed[at]),
            float(told.norm_speed[at]),
            float(told.sd[at]),
        )
        for at in np.argsort(-error, kind="stable")[:most].tolist()
    ]


def _victim_models(held: HeldOut, solos: SoloProfiles) -> TextArray:
    model = dict(zip(solos.keys(), solos.model, strict=True))
    keys = zip(held.rows.source, held.rows.gpu_type, held.rows.victim, strict=True)
    told = np.empty(len(held.rows), dtype=np.object_)
    told[:] = [model[key] for key in keys]
    return told


def _cell(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value
