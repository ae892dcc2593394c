"""One table of a sweep: schedulers down, what was swept across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.metrics.intervals import Interval
from sim.report.standings import Setting, Standing
from sim.report.table_text import interval_text
from sim.report.time_unit import TimeUnit, unit_for

if TYPE_CHECKING:
    from rich.table import Table

MOST_POINTS = 12  # columns of a table that can be read
OF_SETTINGS = ("topology", "workload", "load", "agents", "physics")
UNSET = "-"
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
        (*_apart(standing), _values(setting, standing), standing.intervals["jct_mean_s"])
        for setting in settings
        for standing in setting.standings
        if "jct_mean_s" in standing.intervals
    ]
    every = dict.fromkeys(key for *_, values, _ in found for key in values)
    keys = tuple(
        key for key in every if len({values.get(key, UNSET) for *_, values, _ in found}) > 1
    )
    if not keys:
        return None
    cells = {
        (name, tuple(values.get(key, UNSET) for key in keys)): interval
        for name, _, values, interval in found
    }
    points = sorted({point for _, point in cells}, key=_order)
    if len(points) > MOST_POINTS or len(cells) < len(found):  # one name, two roles
        return None
    roles = {name: role for name, role, *_ in found}
    ordered = sorted(roles, key=lambda name: _mean(cells, name))
    return Sweep(keys, tuple(points), {name: roles[name] for name in ordered}, cells)


def _apart(standing: Standing) -> tuple[str, str]:
    """(scheduler without the swept values behind it, role)."""
    return standing.scheduler.partition(" [")[0], standing.role


def _values(setting: Setting, standing: Standing) -> dict[str, str]:
    """Key -> value, of the setting and of what stands behind the scheduler's name."""
    found = {key: _text(getattr(setting, key)) for key in OF_SETTINGS}
    for word in standing.scheduler.partition(" [")[2].removesuffix("]").split():
        key, _, value = word.partition("=")
        found[key] = value
    return found


def _text(value: object) -> str:
    if value is None:
        return "as it comes"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(point: Point) -> list[tuple[float, str]]:
    """Numbers by size, then words."""
    return [(_number(value), value) for value in point]


def _number(value: str) -> float:
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


def _rows(sweep: Sweep) -> list[list[str]]:
    share = 1.0 / sweep.unit.length_s
    return [
        [name, *(interval_text(sweep.cells.get((name, point)), share) for point in sweep.points)]
        for name in sweep.roles
    ]


def sweep_markdown(sweep: Sweep) -> str:
    """The table for a file, under its heading."""
    header = ["scheduler", *(" / ".join(point) for point in sweep.points)]
    rule = [":--", *("--:" for _ in sweep.points)]
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, rule, *_rows(sweep))]
    return f"## {sweep_title(sweep)}\n\n" + "\n".join(lines) + "\n"


def sweep_table(sweep: Sweep) -> Table:
    """The table for a terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(sweep_title(sweep)), title_justify="left", title_style="bold",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    table.add_column("scheduler", overflow="fold")
    for point in sweep.points:
        table.add_column(escape(" /\n".join(point)), justify="right", no_wrap=True)
    for cells in _rows(sweep):
        table.add_row(*map(escape, cells))
    return table
