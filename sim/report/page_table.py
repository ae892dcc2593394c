"""The tables of a page of results, in the page's own rows and columns: `page.md`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.metrics.timeline import Interval
from sim.report.league import METRIC, LeagueRun
from sim.report.paper_claims import Claim, measured
from sim.report.table_text import interval_text, markdown_table

MEAN, RATIO, SAVED = SHOWN = ("mean", "ratio", "saved")
ALL = "all"  # column over every cell
HOUR_S, PERCENT = 3600.0, 100.0
BEGIN, END = "<!-- table: {} -->", "<!-- end of table -->"


@dataclass(frozen=True)
class PageRow:
    """One line of a table."""

    label: str
    scheduler: str
    against: str | None = None  # what it is divided by; None with `mean`
    metric: str = METRIC


@dataclass(frozen=True)
class PageTable:
    """Schedulers, or pairs of them, by cells."""

    rows: tuple[PageRow, ...]
    columns: Mapping[str, str] = field(default_factory=dict)  # cell -> heading; none: every cell
    show: str = MEAN  # of the metric, its ratio to `against`, or the percent saved of `against`
    per: float = HOUR_S  # `mean` is divided by it
    corner: str = ""  # what stands above the labels


def page_markdown(
    tables: Sequence[PageTable], runs: Sequence[LeagueRun], *, confidence: float
) -> str:
    """Every table; without one, mean JCT of each scheduler in each cell, in hours.

    Columns of cells that were not run are left out, and rows of schedulers that were not.
    Intervals are those of `paper.csv`: t over paired windows.
    """
    shown = [_table(table, runs, confidence) for table in tables or [_every(runs)]]
    return "\n".join(text for text in shown if text)


def with_table(text: str, name: str, table: str) -> str | None:
    """A page with the lines between the marks of `name` changed; None where it has no such."""
    head, begin, rest = text.partition(BEGIN.format(name))
    _, end, tail = rest.partition(END)
    return f"{head}{begin}\n\n{table.strip()}\n\n{end}{tail}" if begin and end else None


def table_in(text: str, name: str) -> str | None:
    """What stands between the marks of `name`."""
    _, begin, rest = text.partition(BEGIN.format(name))
    table, end, _ = rest.partition(END)
    return table.strip() + "\n" if begin and end else None


def _every(runs: Sequence[LeagueRun]) -> PageTable:
    names = dict.fromkeys(run.row.labels.scheduler for run in runs)
    return PageTable(tuple(PageRow(name, name) for name in names), corner="mean JCT [h]")


def _table(table: PageTable, runs: Sequence[LeagueRun], confidence: float) -> str:
    cells = list(dict.fromkeys(run.cell for run in runs))
    known = {run.row.labels.scheduler for run in runs}
    columns = table.columns or {cell: cell for cell in cells}
    columns = {cell: head for cell, head in columns.items() if cell in {*cells, ALL}}
    rows = [row for row in table.rows if {row.scheduler, row.against} - {None} <= known]
    claims = [Claim(row.label, row.scheduler, row.against, row.metric, "") for row in rows]
    found = {
        (at, each.cell if len(cells) > 1 else cell): each.interval
        for at, claim in enumerate(claims)
        for each in measured([claim], runs, confidence=confidence)
        for cell in [*cells, ALL]
    }
    if not rows or not columns:
        return ""
    lines = [
        [row.label, *(_text(found.get((at, cell)), table) for cell in columns)]
        for at, row in enumerate(rows)
    ]
    return "\n".join(markdown_table([table.corner, *columns.values()], lines)) + "\n"


def _text(interval: Interval | None, table: PageTable) -> str:
    if interval is None:
        return "-"
    if table.show == MEAN:
        return interval_text(interval, 1.0 / table.per)
    centre, low, high = interval.centre, interval.low, interval.high
    if table.show == RATIO:
        centre, low, high, digits = 1 - centre, 1 - high, 1 - low, 2
    else:
        centre, low, high, digits = PERCENT * centre, PERCENT * low, PERCENT * high, 0
    if np.isnan(low):
        return f"{centre:.{digits}f}"
    return f"{centre:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
