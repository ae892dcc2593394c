"""What a reproduction leaves in its folder: tables, ranks, figures, claims beside measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.pages.comparison_page import CURVES
from gpuyard.reproduction.node import PAGE_FILE, Reproduction
from gpuyard.reproduction.runs import rank_rows, write_frame
from sim.files import write_atomically
from sim.report.arms import arm_rows, arms_csv, arms_markdown
from sim.report.comparison_report import write_comparison
from sim.report.figure_studies import league_heat, rank_figure
from sim.report.headline import FILES as HEADLINE_FILES
from sim.report.league import (
    League,
    LeagueRun,
    default_reference,
    league_csv,
    league_note,
    league_of,
    league_rows,
    league_text,
    rank_in_common,
    rank_over_all,
)
from sim.report.page_table import claims_csv, claims_markdown, measured, page_markdown
from sim.report.significance import Ranking
from sim.report.table_text import markdown, rich_tables

if TYPE_CHECKING:
    from rich.console import Group


RESULT_FILES = (
    "comparison.csv", "comparison.md", "jct_bars.png", "league.csv", "league.md", "league.png",
    "ranks.csv", "ranks.png", "ranks_common.png", "paper.csv", "paper.md", "arms.csv", "arms.md",
    PAGE_FILE, CURVES, *HEADLINE_FILES,
)  # fmt: skip


def write_reproduction(
    folder: Path,
    found: Reproduction,
    runs: Sequence[LeagueRun],
    *,
    ours: str | None,
    confidence: float,
    level: float,
    lacking: str = "",
) -> Group:
    """Write every file from the runs that there are; return the tables to be printed.

    Args:
        folder: exists.
        found: title, claims, arms and reference.
        runs: in the order of cells.
        ours: scheduler that is divided by the others in comparison.md; None for no ratio.
        confidence: of the intervals.
        level: of significance, of the ranks.
        lacking: a sentence on runs that are not there; it stands below tables.
    """
    rows = [run.row for run in runs]
    write_comparison(folder, rows, ours=ours, confidence=confidence, lacking=lacking)
    if found.claims:
        claims = measured(found.claims, runs, confidence=confidence)
        write_atomically(folder / "paper.csv", claims_csv(claims))
        write_atomically(folder / "paper.md", claims_markdown(claims).encode())
    if found.arms:
        arms = arm_rows(runs, references=found.arms, confidence=confidence)
        write_atomically(folder / "arms.csv", arms_csv(arms))
        text = f"# {found.title}\n\n{arms_markdown(arms, confidence=confidence)}"
        write_atomically(folder / "arms.md", text.encode())
    page = page_markdown(found.page, runs, confidence=confidence)
    write_atomically(folder / PAGE_FILE, page.encode())
    return _write_league(folder, found, runs, confidence, level, lacking)


def _write_league(
    folder: Path,
    found: Reproduction,
    runs: Sequence[LeagueRun],
    confidence: float,
    level: float,
    lacking: str,
) -> Group:
    league = league_of(runs)
    everywhere, common = rank_over_all(league, level=level), rank_in_common(league, level=level)
    if everywhere is not None and common is not None and everywhere.names == common.names:
        common = None  # it would say the same again
    _write_ranks(folder, league, {"ranks": everywhere, "ranks_common": common})
    reference = found.ratio_to or default_reference(league, everywhere)
    table = league_rows(
        league, everywhere=everywhere, common=common, reference=reference, confidence=confidence
    )
    names = [row.scheduler for row in table]
    cells = list(dict.fromkeys(run.cell for run in runs))
    league_heat(league, names=names, cells=cells, path=folder / "league.png")
    note = league_note(
        table, reference=reference, chosen=found.ratio_to is None,
        rankings=(everywhere, common), confidence=confidence,
    )  # fmt: skip
    write_atomically(folder / "league.csv", league_csv(table))
    text = league_text(table, f"{note} {lacking}".strip(), confidence=confidence)
    whole = f"# {found.title}\n\n{markdown(text, texts=2)}"
    write_atomically(folder / "league.md", whole.encode())
    return rich_tables(text, texts=2)


def _write_ranks(folder: Path, league: League, rankings: dict[str, Ranking | None]) -> None:
    """ranks.csv, and a figure for each ranking that there is."""
    rows = []
    for stem, found in rankings.items():
        if found is None:
            continue
        over = "every cell" if stem == "ranks" else "runs in common"
        rows += [{"over": over, **row} for row in rank_rows(found)]
        information = {name: league.labels(name).information for name in found.names}
        path = folder / f"{stem}.png"
        rank_figure(found, path=path, over="windows or stretches", information=information)
    if rows:
        write_frame(folder / "ranks.csv", rows)
