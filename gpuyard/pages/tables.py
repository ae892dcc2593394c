"""Tables of a page: metrics of a run, a comparison, a CSV file, any rows."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from gpuyard.pages.page import Cell, Table
from sim.report.standings import Setting
from sim.report.table_text import table_text

HOUR_S = 3600.0
WORDS = 3  # columns of a comparison that hold words come first there
MOST_ROWS = 500  # of a table from a file; the file has the rest
LEADING_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w+])")


def metrics_table(metrics: Mapping[str, float | int | str]) -> Table:
    """Every metric with its value, simulated times in hours too."""
    rows = []
    for key, value in metrics.items():
        if isinstance(value, str):
            rows.append((Cell(key), Cell(value), Cell("")))
            continue
        simulated = key.endswith("_s") and not key.startswith("loop_") and math.isfinite(value)
        hours = Cell(f"{value / HOUR_S:,.2f}", value / HOUR_S) if simulated else Cell("")
        rows.append((Cell(key), number_cell(value), hours))
    note = "Keys are those of metrics.json; times are seconds, the last column has them in hours."
    return Table("All metrics", ("metric", "value", "hours"), tuple(rows), note)


def comparison_tables(
    settings: Sequence[Setting],
    *,
    ours: str | None,
    confidence: float,
    opened: int = 3,
) -> tuple[Table, ...]:
    """One table a setting, as in comparison.md, with intervals; the note stands below the last.

    Args:
        settings: with standings.
        ours: scheduler that the others are divided by; None for no ratio.
        confidence: of the intervals.
        opened: how many of them are not folded.
    """
    text = table_text(settings, ours=ours, confidence=confidence)
    # Numbers first: on a narrow screen they stand beside the scheduler without scrolling.
    order = [0, *range(WORDS, len(text.headers)), *range(1, WORDS)]
    return tuple(
        Table(
            f"Comparison: {name}",
            tuple(text.headers[at] for at in order),
            tuple(tuple(text_cell(row[at]) for at in order) for row in rows),
            text.note if at in {0, len(text.settings) - 1} else "",
            opened=at < opened,
        )
        for at, (name, rows) in enumerate(text.settings)
    )


def table_of_rows(
    title: str,
    rows: Sequence[Mapping[str, object]],
    *,
    note: str = "",
    headers: Mapping[str, str] | None = None,
    opened: bool = True,
) -> Table:
    """A table of any rows, such as why jobs waited: keys of the first row are its columns.

    Args:
        title: of the table.
        rows: numbers and texts; a key that a row lacks is an empty cell.
        note: stands below it; it says so where rows are left out.
        headers: key -> what the column is called.
        opened: False: folded until it is clicked.
    """
    keys = list(rows[0]) if rows else []
    shown = rows[:MOST_ROWS]
    if len(rows) > len(shown):
        note = f"{note} The first {len(shown)} of {len(rows):,} rows.".strip()
    cells = tuple(tuple(value_cell(row.get(key, "")) for key in keys) for row in shown)
    names = headers or {}
    return Table(title, tuple(names.get(key, key) for key in keys), cells, note, opened)


def csv_table(path: Path, title: str, *, opened: bool = True) -> Table | None:
    """A table of a CSV file; None where it has no row."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        rows = list(islice(lines, MOST_ROWS + 1))
    if not rows:
        return None
    note = f"From {path.name}."
    if len(rows) > MOST_ROWS:
        note = f"The first {MOST_ROWS} rows of {path.name}, which has all of them."
    return table_of_rows(title, rows[:MOST_ROWS], note=note, opened=opened)


def markdown_tables(path: Path, title: str) -> list[Table]:
    """The tables of a Markdown file; none where there is no such file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    blocks = [
        [line for line in part.splitlines() if line[:1] == "|"] for part in text.split("\n\n")
    ]
    found = [[_cells(line) for line in block] for block in blocks if block]
    return [
        Table(title, head, tuple(tuple(map(text_cell, row)) for row in rows))
        for head, _, *rows in found
    ]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|"))


def value_cell(value: object) -> Cell:
    """A number in a readable form, or a text."""
    if isinstance(value, bool) or value is None:
        return Cell("" if value is None else str(value).lower())
    if isinstance(value, int | float):
        return number_cell(value)
    text = str(value)
    try:
        number = float(text)
    except ValueError:
        return Cell(text)
    return number_cell(int(text) if text.lstrip("-").isdigit() else number)


def number_cell(value: float | int) -> Cell:
    """Counts whole, others to four figures, `-` where nothing was measured."""
    if isinstance(value, int):
        return Cell(f"{value:,}", float(value))
    if not math.isfinite(value):
        return Cell("-" if math.isnan(value) else str(value))
    small = abs(value) < 1000.0  # noqa: PLR2004  (from there on, four figures hide whole seconds)
    return Cell(f"{value:,.4g}" if small else f"{value:,.0f}", value)


def text_cell(text: str) -> Cell:
    """A text that may begin with a number, like `4.20 ± 0.31`, which it is sorted by."""
    found = LEADING_NUMBER.match(text)
    return Cell(text, float(found.group()) if found else None)
