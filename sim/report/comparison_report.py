"""Everything a comparison leaves in its folder, from its rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim.report.comparison import check_distinct, write_comparison_csv
from sim.report.comparison_row import ComparisonRow
from sim.report.figure_jct_bars import jct_bars
from sim.report.figure_sweep import sweep_lines
from sim.report.standings import standings
from sim.report.sweep import sweep_markdown, sweep_of, sweep_table
from sim.report.table_text import table_text
from sim.report.tables import rich_tables, under_table, write_markdown
from sim.report.upper_line import beside_agents

if TYPE_CHECKING:
    from rich.console import Group

SWEEP = "sweep.png"


def write_comparison(
    folder: Path,
    rows: Sequence[ComparisonRow],
    *,
    ours: str | None,
    confidence: float,
    assumed: Sequence[str] = (),
    sweeps: bool = False,
) -> Group:
    """Write comparison.csv, comparison.md and jct_bars.png; return the tables to be printed.

    Of a sweep that is one table, which is also the first of comparison.md, and sweep.png has its
    lines where a number was swept.

    Args:
        folder: made if it is not there.
        rows: one a run, with distinct labels.
        ours: scheduler that the others are divided by; None for no ratio.
        confidence: of the intervals, like 0.95.
        assumed: what the runs took for granted; it stands below the tables.
        sweeps: the rows may be of a sweep.

    Raises:
        ReportError: no rows, doubled rows, or `ours` is in none of them.
    """
    check_distinct(rows)
    settings = standings(beside_agents(rows), ours=ours, confidence=confidence)
    text = table_text(settings, ours=ours, confidence=confidence)
    if assumed:
        told = f"{text.note} Assumed: {'; '.join(assumed)}."
        text = replace(text, note=told.strip())
    folder.mkdir(parents=True, exist_ok=True)
    write_comparison_csv(folder / "comparison.csv", rows)
    sweep = sweep_of(settings) if sweeps else None
    first = "" if sweep is None else sweep_markdown(sweep)
    write_markdown(folder / "comparison.md", text, first=first)
    jct_bars(settings, path=folder / "jct_bars.png", confidence=confidence)
    if sweep is None:
        return rich_tables(text)
    sweep_lines(sweep, path=folder / SWEEP)
    return under_table(sweep_table(sweep), f"{text.note} All metrics: comparison.md.")
