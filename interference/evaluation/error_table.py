"""Errors as blocks of a table, one a data set and split; and where models are worst."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interference.evaluation.judge import MEASURES, HeldOut, models_of
from interference.evaluation.score_file import HELD_OUT_PAIRS, Counts, Results
from sim.arrays import objects
from sim.files import csv_text
from sim.report.table_text import markdown_table

if TYPE_CHECKING:
    from rich.console import Group

HEADERS = ("model", "MAE", "MAPE [%]", "R2", "rank corr.", "in 90 % [%]", "width", "choice [%]")
READING = (
    "MAE, MAPE: mean error of normalised speed, absolute and over the truth. rank corr.: "
    "Spearman's. in 90 %: share of truths in the 90 % interval; width: its mean width. choice: "
    "worth of the partners the model picks over that of the best. * smallest MAE of a block."
)
COUNTS = ("infeasible_rows", "unmeasured_rows", "fitted_rows", "met_rows")


@dataclass(frozen=True)
class Block:
    """One data set (or GPU type of it) under one split."""

    title: str
    rows: tuple[tuple[str, ...], ...]  # cells under HEADERS
    best: int  # row with the smallest MAE
    note: str  # what is to be known of rows of a file; else empty


def blocks(results: Results) -> list[Block]:
    """In the order of the errors; a split whose rows were all left out is not there."""
    return [
        _block(f"{name}, {split}", by_model, results.counts.get(name, {}).get(split))
        for name, by_split in results.errors.items()
        for split, by_model in by_split.items()
    ]


def nothing_scored(results: Results) -> list[str]:
    """A line for each split of files none of whose rows has a speed to compare with."""
    return [
        f"{name}, {split}: {_note(counts)} Nothing is left to score."
        for name, by_split in results.counts.items()
        for split, counts in by_split.items()
        if not counts.scored
    ]


def rich_blocks(results: Results) -> Group:
    """What a terminal prints."""
    from rich import box
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    shown: list[Table | Text] = []
    for block in blocks(results):
        table = Table(
            title=escape(block.title), title_justify="left", title_style="bold",
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for place, header in enumerate(HEADERS):
            table.add_column(escape(header), justify="right" if place else "left", no_wrap=True)
        for place, cells in enumerate(block.rows):
            table.add_row(*map(escape, cells), style="bold" if place == block.best else "")
        shown.append(table)
        if block.note:
            shown.append(Text(block.note, style="yellow" if "IN-SAMPLE" in block.note else ""))
    return Group(*shown, Text(READING, style="dim"))


def markdown_blocks(results: Results) -> str:
    """The same as a page."""
    parts = []
    for block in blocks(results):
        lines = [f"## {block.title}", ""]
        lines += [block.note, ""] if block.note else []
        lines += markdown_table(HEADERS, block.rows)
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, READING]) + "\n"


def csv_blocks(results: Results) -> str:
    """One line a (data set, split, model), numbers in full; the counts are of files only."""
    keys = (*MEASURES, *COUNTS)
    rows = (
        (name, split, model, *(_full(found.get(key)) for key in keys))
        for name, by_split in with_counts(results).items()
        for split, by_model in by_split.items()
        for model, found in by_model.items()
    )
    return csv_text(("data_set", "split", "model", *keys), rows)


def json_blocks(results: Results) -> str:
    """Data set -> split -> model -> measures; null where a measure says nothing."""
    return plain_json(with_counts(results))


def plain_json(numbers: Mapping[str, Any]) -> str:
    """Nested numbers; null for NaN."""
    return json.dumps(_without_nan(numbers), indent=1) + "\n"


def _without_nan(told: Any) -> Any:
    if isinstance(told, Mapping):
        return {key: _without_nan(value) for key, value in told.items()}
    return None if np.isnan(told) else told


def with_counts(results: Results) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The errors, those of files with the counts of their rows beside the measures."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, by_split in results.errors.items():
        found[name] = {}
        for split, by_model in by_split.items():
            counts = results.counts.get(name, {}).get(split)
            told = {
                key: float(getattr(counts, key.removesuffix("_rows"))) for key in COUNTS if counts
            }
            found[name][split] = {model: each | told for model, each in by_model.items()}
    return found


def _block(title: str, by_model: dict[str, dict[str, float]], counts: Counts | None) -> Block:
    mae = [measured["mae"] for measured in by_model.values()]
    best = int(np.argmin(mae))
    any_model = next(iter(by_model.values()))
    title = f"{title} ({any_model['rows']:.0f} rows)"
    if not np.isnan(any_model["choice_blind"]):
        title += f"; a blind choice is worth {any_model['choice_blind']:.1%}"
    cells = [
        _cells(model, measured, mark=" *" if place == best else "")
        for place, (model, measured) in enumerate(by_model.items())
    ]
    return Block(title, tuple(cells), best, "" if counts is None else _note(counts))


def _cells(model: str, measured: dict[str, float], *, mark: str) -> tuple[str, ...]:
    return (
        model,
        f"{measured['mae']:.4f}{mark}",
        _number(100.0 * measured["mape"], 1),
        _number(measured["r2"], 3),
        _number(measured["rank"], 3),
        _number(100.0 * measured["covered"], 1),
        _number(measured["width"], 3),
        _number(100.0 * measured["choice"], 1),
    )


def _number(value: float, decimals: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{decimals}f}"


def _full(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else repr(float(value))


def _note(counts: Counts) -> str:
    told = []
    if counts.fitted:
        told.append(
            f"IN-SAMPLE: {counts.fitted} of {counts.scored} rows were fitted too, so these errors "
            "are too small."
        )
    else:
        told.append("None of the rows was fitted.")
    if counts.met:
        told.append(
            f"Of {counts.met} rows the same jobs were fitted in other roles or on another GPU type."
        )
    if counts.new_models:
        told.append(f"Models that no fitted row has: {', '.join(counts.new_models)}.")
    if counts.infeasible or counts.unmeasured:
        told.append(
            f"Left out: {counts.infeasible} infeasible rows, {counts.unmeasured} without a "
            "measured speed relative to a run alone."
        )
    return " ".join(told)


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


def worst_rows(results: Results) -> list[WorstRow]:
    """The largest errors over all data sets, on held-out pairs and rows of files."""
    found = [
        row
        for data_set in results.judged
        for split, held in results.of_drawn(data_set)
        if split == HELD_OUT_PAIRS or results.is_of_files(data_set, split)
        for row in _worst(data_set, split, held)
    ]
    return sorted(found, key=lambda row: -abs(row.predicted - row.measured))[:MOST]


def by_victim_model(results: Results) -> list[VictimModel]:
    """Every data set, split and model, worst of each split first."""
    found = []
    for data_set in results.judged:
        for split, held in results.of_drawn(data_set):
            victims = objects([row[0] for row in models_of(held.rows, results.solos[data_set])])
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
    return pd.DataFrame(rows).round(6).to_csv(index=False) if rows else ""


def _worst(data_set: str, split: str, held: HeldOut) -> list[WorstRow]:
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
        for at in np.argsort(-error, kind="stable")[:MOST].tolist()
    ]
