"""Figure: mean JCT of every scheduler with its interval, one panel a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.report.figure_style import (
    ROLE_COLOURS,
    Run,
    colours_of,
    heading,
    new_figure,
    save_png,
    tidy,
)
from sim.report.standings import Setting, Standing
from sim.report.time_unit import TimeUnit, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_FAR = 8.0  # times the best: beyond, dots on a logarithmic axis tell more than bars
_PANELS_A_ROW = 2
_ROOM = 1.6  # length of the axis in longest bars: room for intervals and labels


def jct_bars(settings: Sequence[Setting], *, path: Path, confidence: float) -> None:
    """Draw one bar a scheduler, shortest on top, coloured by role; one panel a setting.

    Args:
        settings: as `standings` groups them (topology, workload, load, agents, physics).
        path: PNG to write.
        confidence: of the intervals, for the axis label.
    """
    columns = min(len(settings), _PANELS_A_ROW)
    rows = -(-len(settings) // columns)
    most = max(len(setting.standings) for setting in settings)
    figure = new_figure(8.0 if columns == 1 else 7.0 * columns, rows * (1.6 + 0.32 * most))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    colours = colours_of((s.scheduler, s.role) for each in settings for s in each.standings)
    for axes, setting in zip(panels, settings, strict=False):
        _draw(axes, setting, confidence, colours)
    for axes in panels[len(settings) :]:
        axes.set_visible(False)
    roles = {s.role for setting in settings for s in setting.standings}
    shown = [role for role in ROLE_COLOURS if role in roles]
    if len(shown) > 1:
        handles = [_patch(role) for role in shown]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9,
            frameon=False,
        )  # fmt: skip
    save_png(figure, path)


def _patch(role: str) -> Patch:
    from matplotlib.patches import Patch

    return Patch(color=ROLE_COLOURS[role], label=role.replace("_", " "))


def _draw(axes: Axes, setting: Setting, confidence: float, colours: Mapping[Run, str]) -> None:
    known = [s for s in setting.standings if "jct_mean_s" in s.intervals]
    unit = unit_for(s.intervals["jct_mean_s"].centre for s in known)
    centres = [s.intervals["jct_mean_s"].centre / unit.length_s for s in known]
    best, longest = min(centres, default=0.0), max(centres, default=0.0)
    far = best > 0.0 and longest > _FAR * best
    axes.set_yticks(range(len(known)), [s.scheduler for s in known])
    axes.invert_yaxis()
    if far:
        axes.set_xscale("log")
        axes.set_xlim(best / _ROOM, longest * _ROOM**2)
    else:
        axes.set_xlim(0, _ROOM * longest or 1.0)
    scale = " (log scale)" if far else ""
    axes.set_xlabel(f"mean JCT [{unit.name}]{scale}, {confidence:.0%} interval")
    for place, standing in enumerate(known):
        _bar(axes, place, standing, unit, colours[standing.scheduler, standing.role])
    heading(axes, _two_lines(setting.title))
    tidy(axes, grid="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _two_lines(title: str) -> str:
    """The title broken at its middle comma, to fit above a panel."""
    parts = title.split(", ")
    half = len(parts) // 2
    return ", ".join(parts[:half]) + ",\n" + ", ".join(parts[half:])


def _bar(axes: Axes, place: int, standing: Standing, unit: TimeUnit, colour: str) -> None:
    """A bar, or a dot where the axis has no 0; the interval's far end is cut by an arrow."""
    interval = standing.intervals["jct_mean_s"]
    centre = interval.centre / unit.length_s
    low, high = interval.low / unit.length_s, interval.high / unit.length_s
    dots, (left, right) = axes.get_xscale() == "log", axes.get_xlim()
    if dots:
        axes.plot(centre, place, "o", color=colour, markersize=9)
    else:
        axes.barh(place, centre, color=colour, height=0.68)
    end = centre
    if not np.isnan(low):
        most = right / _ROOM**0.5 if dots else right * 0.86  # room for the label
        end = max(min(high, most), centre)
        axes.hlines(place, max(low, left), end, color="#222222", linewidth=1.4)
        if end < high:
            axes.plot(end, place, ">", color="#222222", markersize=5)
    axes.annotate(
        f"   {centre:.3g}", (end, place), va="center", fontsize=9,
        fontweight="bold" if standing.role == "ours" else "normal",
    )  # fmt: skip
