"""Everything a comparison leaves in its folder, from its rows alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.files import ComparisonRow, apart_from_swept, check_distinct, write_comparison_csv
from sim.report.figures import heading, jct_bars, looks, new_figure, save_png, tidy
from sim.report.job_times import Interval
from sim.report.standings import Setting, Standing, beside_agents, standings
from sim.report.table_text import (
    RichTable,
    interval_text,
    markdown_table,
    rich_tables,
    table_text,
    write_markdown,
)
from sim.times import TimeUnit, unit_for

if TYPE_CHECKING:
    from rich.console import Group


MOST_POINTS = 12  # columns of a table that can be read
OF_SETTINGS = ("topology", "workload", "load", "agents", "physics", "part")
UNSET = "-"
IN_NAMES = ("placer", "sharing", "forwarding")  # who reads them has them in its name, not as values
Point = tuple[str, ...]  # a value for each of `keys`


@dataclass(frozen=True)
class Sweep:
    """Mean JCT of each scheduler at each point."""

    keys: tuple[str, ...]  # what was swept: settings and keys of the configuration
    points: tuple[Point, ...]
    roles: Mapping[str, str]  # scheduler -> role; best mean over its points first
    cells: Mapping[tuple[str, Point], Interval]

    @property
    def unit(self) -> TimeUnit:
        """That of all cells."""
        return unit_for(interval.centre for interval in self.cells.values())

    def numbers(self) -> tuple[int, tuple[float, ...]] | None:
        """The first key whose values are all numbers: its place, and its value at each point."""
        for place in range(len(self.keys)):
            try:
                return place, tuple(float(point[place]) for point in self.points)
            except ValueError:
                continue
        return None


def sweep_of(settings: Sequence[Setting]) -> Sweep | None:
    """What was swept, if anything was, and its table has columns that can be read."""
    found = [
        # (scheduler without the swept values behind it, its role, all values, mean JCT)
        (apart_from_swept(standing.scheduler)[0], standing.role, _values(setting, standing),
         standing.intervals["jct_mean_s"])
        for setting in settings
        for standing in setting.standings
        if "jct_mean_s" in standing.intervals
    ]  # fmt: skip
    every = dict.fromkeys(key for *_, values, _ in found for key in values)
    keys = tuple(
        key for key in every if len({values.get(key, UNSET) for *_, values, _ in found}) > 1
    )
    partly = any(key in IN_NAMES and key not in values for key in keys for *_, values, _ in found)
    if not keys or partly:
        return None
    cells = {
        (name, tuple(values.get(key, UNSET) for key in keys)): interval
        for name, _, values, interval in found
    }
    points = sorted(
        {point for _, point in cells},
        key=lambda point: [(_number(value), value) for value in point],
    )
    if len(points) > MOST_POINTS or len(cells) < len(found):  # one name, two roles
        return None
    roles = {name: role for name, role, *_ in found}
    ordered = sorted(roles, key=lambda name: _mean(cells, name))
    return Sweep(keys, tuple(points), {name: roles[name] for name in ordered}, cells)


def _values(setting: Setting, standing: Standing) -> dict[str, str]:
    """Key -> value, of the setting and of what stands behind the scheduler's name."""
    found = {key: _text(getattr(setting, key)) for key in OF_SETTINGS}
    _, swept = apart_from_swept(standing.scheduler)
    for word in filter(None, re.split(r" (?=[^\s=]+=)", swept)):  # values may hold spaces
        key, _, value = word.partition("=")
        found[key] = value
    return found


def _text(value: object) -> str:
    if value is None:
        return "as it comes"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: str) -> float:
    """For sorting: numbers by size, then words."""
    try:
        return float(value)
    except ValueError:
        return float("inf")


def _mean(cells: Mapping[tuple[str, Point], Interval], name: str) -> float:
    centres = [interval.centre for (each, _), interval in cells.items() if each == name]
    return sum(centres) / len(centres)


def sweep_title(sweep: Sweep) -> str:
    """What the columns are."""
    return f"mean JCT [{sweep.unit.name}] over {' / '.join(sweep.keys)}"


def sweep_rows(sweep: Sweep) -> list[list[str]]:
    """A row a scheduler: its name, and mean JCT at each point in the unit of the title."""
    share = 1.0 / sweep.unit.length_s
    return [
        [name, *(interval_text(sweep.cells.get((name, point)), share) for point in sweep.points)]
        for name in sweep.roles
    ]


def sweep_markdown(sweep: Sweep) -> str:
    """The table for a file, under its heading."""
    header = ["scheduler", *(" / ".join(point) for point in sweep.points)]
    lines = markdown_table(header, sweep_rows(sweep))
    return f"## {sweep_title(sweep)}\n\n" + "\n".join(lines) + "\n"


def sweep_table(sweep: Sweep) -> RichTable:
    """The table for a terminal."""
    headers = ("scheduler", *(" /\n".join(point) for point in sweep.points))
    return RichTable(headers, sweep_title(sweep), tuple(map(tuple, sweep_rows(sweep))), texts=1)


MOST_LINES = 14
BESIDE = 0.5  # of the way from one word to the next is taken by its points

Line = tuple[str, ...]  # a scheduler, and a value of each key but the one that is drawn over
LinePoint = tuple[float, float, float, float]  # the number, mean JCT in the unit, its interval


@dataclass(frozen=True)
class Lines:
    """What is drawn over a key that was swept."""

    key: str
    words: tuple[str, ...]  # its values at 0, 1, ... where they are no numbers; else empty
    points: Mapping[Line, list[LinePoint]]  # ascending

    def apart(self, at: int) -> float:
        """How far line `at` is drawn beside its words, so that points do not hide each other."""
        count = len(self.points)
        return BESIDE * ((at + 0.5) / count - 0.5) if self.words else 0.0


def lines_of(sweep: Sweep) -> Lines | None:
    """A line a scheduler over the first number that was swept, else over the first key.

    None where there are more lines than can be told apart.
    """
    found, words = sweep.numbers(), tuple[str, ...]()
    if found is None:
        words = tuple(dict.fromkeys(point[0] for point in sweep.points))
        found = 0, tuple(float(words.index(point[0])) for point in sweep.points)
    place, numbers = found
    lines: dict[Line, list[LinePoint]] = {}
    length_s = sweep.unit.length_s
    for point, number in zip(sweep.points, numbers, strict=True):
        for name in sweep.roles:
            interval = sweep.cells.get((name, point))
            if interval is not None:
                rest = (name, *(v for at, v in enumerate(point) if at != place))
                centre, low, high = (value / length_s for value in interval.numbers)
                lines.setdefault(rest, []).append((number, centre, low, high))
    if len(lines) > MOST_LINES:
        return None
    return Lines(sweep.keys[place], words, {line: sorted(each) for line, each in lines.items()})


def sweep_lines(sweep: Sweep, *, path: Path) -> bool:
    """Draw a line a scheduler (and a value of what else was swept), with intervals, as PNG.

    Over words, such as topologies, points instead of lines. Returns whether there are no more
    lines than can be told apart.
    """
    found = lines_of(sweep)
    if found is None:
        return False
    lines = found.points
    figure = new_figure(8.0, 4.6 + 0.2 * len(lines))
    axes = figure.subplots()
    look = looks({", ".join(rest): (rest[0], sweep.roles[rest[0]]) for rest in lines})
    for at, (rest, values) in enumerate(lines.items()):
        x, centre, low, high = np.array(values).T
        name = ", ".join(rest)
        if found.words:
            ends = np.nan_to_num([centre - low, high - centre])
            mark = {"fmt": "o", "markersize": 5, "color": look[name]["color"], "label": name}
            axes.errorbar(x + found.apart(at), centre, ends, **mark)
            continue
        axes.plot(x, centre, marker="o", markersize=4, label=name, **look[name])
        axes.fill_between(x, low, high, color=look[name]["color"], alpha=0.12, linewidth=0)
    if found.words:
        axes.set_xticks(range(len(found.words)), found.words)
        axes.set_ylim(bottom=0.0)
    axes.set_xlabel(found.key)
    axes.set_ylabel(f"mean JCT [{sweep.unit.name}]")
    heading(axes, "Lower is better")
    tidy(axes, grid="both")
    figure.legend(loc="outside lower center", ncols=1, fontsize=8.5, frameon=False)
    save_png(figure, path)
    return True


SWEEP = "sweep.png"
MOST_BARS = 240  # of jct_bars.png
log = logging.getLogger(__name__)


def write_comparison(
    folder: Path,  # made if it is not there
    rows: Sequence[ComparisonRow],  # one a run, with distinct labels
    *,
    ours: str | None,  # scheduler that is divided by the others; None for no ratio
    confidence: float,  # of the intervals, like 0.95
    assumed: Sequence[str] = (),  # what the runs took for granted; it stands below the tables
    lacking: str = "",  # a sentence on runs that are not there; so does it
    sweeps: bool = False,  # the rows may be of a sweep
) -> Group:
    """Write comparison.csv, comparison.md and jct_bars.png; return the tables to be printed.

    Bars that are too many for a page are left out.

    Of a sweep that is one table, which is also the first of comparison.md, and sweep.png draws it.

    Raises:
        ReportError: no rows, doubled rows, or `ours` is in none of them.
    """
    check_distinct(rows)
    settings = standings(beside_agents(rows), ours=ours, confidence=confidence)
    text = table_text(settings, ours=ours, confidence=confidence)
    taken = f"Assumed: {'; '.join(assumed)}." * bool(assumed)
    text = replace(text, note=" ".join(filter(None, (text.note, lacking, taken))))
    folder.mkdir(parents=True, exist_ok=True)
    write_comparison_csv(folder / "comparison.csv", rows)
    sweep = sweep_of(settings) if sweeps else None
    first = "" if sweep is None else sweep_markdown(sweep)
    write_markdown(folder / "comparison.md", text, first=first)
    if sum(len(each.standings) for each in settings) <= MOST_BARS:
        jct_bars(settings, path=folder / "jct_bars.png", confidence=confidence)
    else:
        log.info("jct_bars.png left out: more than %d bars; see comparison.md", MOST_BARS)
    if sweep is None:
        return rich_tables(text)
    sweep_lines(sweep, path=folder / SWEEP)
    from rich.console import Group
    from rich.markup import escape

    return Group(sweep_table(sweep), escape(f"{text.note} All metrics: comparison.md."))
