"""What a reproduction leaves in its folder: tables, ranks, figures, claims beside measurements."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.pages.comparison_page import CURVES
from gpuyard.reproduction.node import PAGE_FILE, Reproduction
from sim.files import check_distinct, write_atomically, write_comparison_csv
from sim.report.arms import arm_rows, arms_csv, arms_markdown
from sim.report.figure_studies import league_heat, rank_figure
from sim.report.figures import jct_bars
from sim.report.headline import FILES as HEADLINE_FILES
from sim.report.league import (
    League,
    LeagueRun,
    default_reference,
    league_csv,
    league_markdown,
    league_note,
    league_of,
    league_rows,
    league_tables,
    rank_in_common,
    rank_over_all,
)
from sim.report.page_table import claims_csv, claims_markdown, measured, page_markdown
from sim.report.standings import Ranking, beside_agents, standings
from sim.report.table_text import table_text, write_markdown

if TYPE_CHECKING:
    from rich.console import Group


log = logging.getLogger(__name__)

RESULT_FILES = (
    "comparison.csv", "comparison.md", "jct_bars.png", "league.csv", "league.md", "league.png",
    "ranks.csv", "ranks.png", "ranks_common.png", "paper.csv", "paper.md", "arms.csv", "arms.md",
    PAGE_FILE, CURVES, *HEADLINE_FILES,
)  # fmt: skip
MOST_BARS = 240  # of jct_bars.png; more are told by league.png


def write_reproduction(
    folder: Path,
    found: Reproduction,
    runs: Sequence[LeagueRun],
    *,
    ours: str | None,
    confidence: float,
    level: float,
) -> Group:
    """Write every file from the runs that there are; return the tables to be printed.

    Args:
        folder: exists.
        found: title, claims, arms and reference.
        runs: in the order of cells.
        ours: scheduler that is divided by the others in comparison.md; None for no ratio.
        confidence: of the intervals.
        level: of significance, of the ranks.
    """
    _write_comparison(folder, runs, ours, confidence)
    if found.claims:
        rows = measured(found.claims, runs, confidence=confidence)
        write_atomically(folder / "paper.csv", claims_csv(rows))
        write_atomically(folder / "paper.md", claims_markdown(rows).encode())
    if found.arms:
        arms = arm_rows(runs, references=found.arms, confidence=confidence)
        write_atomically(folder / "arms.csv", arms_csv(arms))
        text = f"# {found.title}\n\n{arms_markdown(arms, confidence=confidence)}"
        write_atomically(folder / "arms.md", text.encode())
    page = page_markdown(found.page, runs, confidence=confidence)
    write_atomically(folder / PAGE_FILE, page.encode())
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
        table, reference=reference, rankings=(everywhere, common), confidence=confidence
    )
    write_atomically(folder / "league.csv", league_csv(table))
    text = f"# {found.title}\n\n{league_markdown(table, note, confidence=confidence)}"
    write_atomically(folder / "league.md", text.encode())
    return league_tables(table, note, confidence=confidence)


def _write_comparison(
    folder: Path, runs: Sequence[LeagueRun], ours: str | None, confidence: float
) -> None:
    """comparison.csv and .md as `evaluate.py` writes them; bars where they fit on a page."""
    rows = [run.row for run in runs]
    check_distinct(rows)
    settings = standings(beside_agents(rows), ours=ours, confidence=confidence)
    write_comparison_csv(folder / "comparison.csv", rows)
    text = table_text(settings, ours=ours, confidence=confidence)
    write_markdown(folder / "comparison.md", text)
    if sum(len(each.standings) for each in settings) <= MOST_BARS:
        jct_bars(settings, path=folder / "jct_bars.png", confidence=confidence)
    else:
        log.info("jct_bars.png left out: more than %d bars; see league.png", MOST_BARS)


def _write_ranks(folder: Path, league: League, rankings: dict[str, Ranking | None]) -> None:
    """ranks.csv, and a figure for each ranking that there is."""
    lines = ["over,blocks,friedman_chi2,friedman_p,critical_difference,level,scheduler,mean_rank"]
    for stem, found in rankings.items():
        if found is None:
            continue
        over = "every cell" if stem == "ranks" else "runs in common"
        test = (
            f"{over},{found.blocks},{found.friedman_chi2!r},{found.friedman_p!r},"
            f"{found.critical_difference!r},{found.level!r}"
        )
        lines += [f'{test},"{name}",{rank!r}' for name, rank in found.rank_of.items()]
        information = {name: league.labels(name).information for name in found.names}
        rank_figure(found, information=information, path=folder / f"{stem}.png")
    if len(lines) > 1:
        write_atomically(folder / "ranks.csv", ("\n".join(lines) + "\n").encode())
