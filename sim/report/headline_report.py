"""`headline.csv` and `headline.md`: one policy against each kind of rival; also for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.metrics.intervals import Interval
from sim.report.atomic import write_atomically
from sim.report.headline_table import JCT, METRICS, SUMMARY, HeadlineCell, Line
from sim.report.table_note import mark
from sim.report.table_text import TableText, interval_text, ratio_text
from sim.report.tables import markdown, rich_tables
from sim.report.time_unit import TimeUnit, unit_for

if TYPE_CHECKING:
    from rich.console import Group

FILES = ("headline.csv", "headline.md")
HEADS = {  # None: a time
    JCT: ("mean JCT", None),
    "jct_p50_s": ("p50", None),
    "jct_p95_s": ("p95", None),
    "jct_p99_s": ("p99", None),
    "slowdown_mean": ("mean slow-down", 1.0),
    "queue_delay_mean_s": ("queueing delay", None),
    "gpu_util_frac": ("GPU use [%]", 100.0),
    "partition_wait_jain": ("Jain of waits", 1.0),
    "partition_wait_max_s": ("longest wait", None),
}
NOTHING = Interval(np.nan, np.nan, np.nan, 0)


def write_headline(
    folder: Path, cells: Sequence[HeadlineCell], *, title: str, confidence: float
) -> Group:
    """Write both files into a folder that exists; return what is to be printed."""
    write_atomically(folder / FILES[0], headline_csv(cells))
    short, whole = (
        summary_text(cells, confidence=confidence),
        whole_text(cells, confidence=confidence),
    )
    text = f"# {title}\n\n{markdown(short)}\n{markdown(whole)}"
    write_atomically(folder / FILES[1], text.encode())
    from rich.console import Group

    return Group(rich_tables(whole), rich_tables(short))


def headline_csv(cells: Sequence[HeadlineCell]) -> bytes:
    """A line a scheduler and setting; an empty cell is a value that is not there."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = ("", "_low", "_high")
    writer.writerow(
        ["topology", "workload", "load", "agents", "physics", "against", "picked_on", "scheduler",
         "windows", "stretches", "effective_windows", *(f"ratio{end}" for end in ends),
         *(f"{key}{end}" for key in METRICS for end in ends), "jobs_unfinished"]
    )  # fmt: skip
    for cell in cells:
        load = "" if cell.load is None else cell.load
        setting = [cell.topology, cell.workload, load, cell.agents, cell.physics]
        for line in cell.lines:
            told = [line.ratio or NOTHING, *(line.means.get(key, NOTHING) for key in METRICS)]
            numbers = [value for each in told for value in (each.centre, each.low, each.high)]
            who = [line.against, line.picked_on, line.scheduler]
            counts = [_windows(line), _stretches(line), _cell(told[0].effective)]
            writer.writerow([*setting, *who, *counts, *map(_cell, numbers), line.unfinished])
    return text.getvalue().encode()


def _cell(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else repr(float(value))


def summary_text(cells: Sequence[HeadlineCell], *, confidence: float) -> TableText:
    """A line a setting: ours / theirs for each kind of rival."""
    unit = _unit(cells)
    found = dict.fromkeys(
        (line.against, line.picked_on) for cell in cells for line in cell.lines
        if line.against in SUMMARY
    )  # fmt: skip
    columns = sorted(found, key=lambda each: SUMMARY.index(each[0]))
    heads = [f"{against} [{part}]" if part else against for against, part in columns]
    rows = []
    for cell in cells:
        ours, *lines = cell.lines
        ratios = {(line.against, line.picked_on): line for line in reversed(lines)}
        jct = interval_text(ours.means.get(JCT), 1.0 / unit.length_s)
        told = [_ratio(ratios.get(column), confidence) for column in columns]
        rows.append((cell.title, _windows_text(ours), jct, *told))
    note = (
        f"Ours ({cells[0].lines[0].scheduler}) / theirs: geometric mean over paired windows of the "
        f"ratios of mean JCT with its {confidence:.0%} t interval; below 1 ours is faster. In "
        f"brackets the windows on which the best was chosen: on those of the result it is the "
        f"hardest rival there is, after the fact. Where windows share stretches of time, intervals "
        f"are bootstrapped by stretch; † marks those over too few for their confidence."
    )
    head = ("setting", "windows", f"ours: mean JCT [{unit.name}]", *heads)
    return TableText(head, (("Ours / theirs", tuple(rows)),), note)


def whole_text(cells: Sequence[HeadlineCell], *, confidence: float) -> TableText:
    """A table a setting: who the best are, and what each did."""
    unit = _unit(cells)
    names = [f"{name} [{unit.name}]" if factor is None else name for name, factor in HEADS.values()]
    settings = tuple(
        (cell.title, tuple(_cells_of(line, unit, confidence) for line in cell.lines))
        for cell in cells
    )
    note = (
        "Mean ± half width of the interval over windows. Jain's index is of the home partitions' "
        "mean queueing delays (1: all equal), the longest wait the largest of these."
    )
    if any(line.unfinished for cell in cells for line in cell.lines):
        note += " * left measured jobs unfinished, which its means do not count."
    return TableText(("against", "picked on", "scheduler", "ours / theirs", *names), settings, note)


def _cells_of(line: Line, unit: TimeUnit, confidence: float) -> tuple[str, ...]:
    name = line.scheduler + (" *" if line.unfinished else "")
    ratio = "(ours)" if line.against == "ours" else _ratio(line, confidence)
    told = [
        interval_text(line.means.get(key), 1.0 / unit.length_s if factor is None else factor)
        for key, (_, factor) in HEADS.items()
    ]
    return line.against, line.picked_on, name, ratio, *told


def _ratio(line: Line | None, confidence: float) -> str:
    if line is None or line.ratio is None:
        return "-"
    return ratio_text(line.ratio) + mark(line.ratio.clusters, confidence)


def _windows(line: Line) -> int:
    return line.means.get(JCT, NOTHING).count


def _stretches(line: Line) -> int | None:
    return line.means.get(JCT, NOTHING).clusters


def _windows_text(line: Line) -> str:
    stretches = _stretches(line)
    if stretches is None:
        return str(_windows(line))
    return f"{_windows(line)} of {stretches} {'stretch' if stretches == 1 else 'stretches'}"


def _unit(cells: Sequence[HeadlineCell]) -> TimeUnit:
    known = [line.means[JCT].centre for cell in cells for line in cell.lines if JCT in line.means]
    return unit_for(known)
