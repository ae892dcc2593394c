"""`comparison.csv`: one line a run, its labels and metrics; written, read back and joined."""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.report.atomic import ReportError, csv_text, write_atomically
from sim.report.labels import LABEL_COLUMNS, LATER_COLUMNS, Labels, labels_from_text


@dataclass(frozen=True)
class ComparisonRow:
    """Labels and metrics of one run."""

    labels: Labels
    metrics: Mapping[str, float | int]  # keys of metrics.json, in their order


def write_comparison_csv(path: Path, rows: Sequence[ComparisonRow]) -> None:
    """Write the label columns, then the metrics in the order in which rows bring them.

    An empty cell is a value that is not there (NaN, or a metric this row does not have).
    """
    keys = list(dict.fromkeys(key for row in rows for key in row.metrics))
    lines = [
        map(_cell, [*row.labels.as_dict().values(), *(row.metrics.get(k, math.nan) for k in keys)])
        for row in rows
    ]
    write_atomically(path, csv_text([*LABEL_COLUMNS, *keys], lines).encode())


def read_comparison_csv(path: Path) -> list[ComparisonRow]:
    """Read what `write_comparison_csv` wrote; empty metrics become NaN.

    Raises:
        ReportError: a column is missing, a line is short, or a cell does not parse.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        _check_header(path, header)
        return [_row(f"{path}, line {lines.line_num}", header, cells) for cells in lines]


def check_distinct(rows: Sequence[ComparisonRow]) -> None:
    """Refuse two results of the same thing: which one should count?"""
    seen: set[Labels] = set()
    for row in rows:
        if row.labels in seen:
            raise ReportError(
                f"two rows of scheduler {row.labels.scheduler} on {row.labels.topology}, "
                f"{row.labels.workload}, load {row.labels.load}, {row.labels.agents} agents, "
                f"seed {row.labels.seed}, window {row.labels.window}; pass each result once"
            )
        seen.add(row.labels)


def _check_header(path: Path, header: list[str]) -> None:
    for place, name in enumerate(LABEL_COLUMNS[: -len(LATER_COLUMNS)]):
        if place >= len(header) or header[place] != name:
            found = header[place] if place < len(header) else "nothing"
            raise ReportError(
                f"{path}, line 1: column {place + 1} is {found!r}; it must be {name!r} "
                f"(the columns begin with {' '.join(LABEL_COLUMNS)})"
            )


def _row(place: str, header: list[str], cells: list[str]) -> ComparisonRow:
    if len(cells) != len(header):
        raise ReportError(f"{place}: {len(cells)} cells for {len(header)} columns")
    named = dict(zip(header, cells, strict=True))
    try:
        labels = labels_from_text(named)
        keys = [name for name in header if name not in LABEL_COLUMNS]
        return ComparisonRow(labels, {key: _number(key, named[key]) for key in keys})
    except ReportError as error:
        raise ReportError(f"{place}: {error}") from None


def _cell(value: str | int | float | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _number(column: str, text: str) -> float | int:
    if not text:
        return math.nan
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ReportError(f"column {column} is {text!r}; it must be a number or empty") from None


def run_names(labels: Sequence[Labels]) -> list[str]:
    """A name a run: the scheduler's, with the number of agents where it ran with several."""
    counts: dict[str, set[int]] = defaultdict(set)
    for run in labels:
        counts[run.scheduler].add(run.agents)
    return [_name(run, len(counts[run.scheduler]) > 1) for run in labels]


def _name(run: Labels, several: bool) -> str:
    plural = "agent" if run.agents == 1 else "agents"
    return f"{run.scheduler} ({run.agents} {plural})" if several else run.scheduler
