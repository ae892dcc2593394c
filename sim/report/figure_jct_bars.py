"""Figure: mean JCT of every scheduler with its interval, one panel a setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.report.figure_style import COLOURS, GREY, heading, new_figure, save_png, tidy
from sim.report.standings import Setting, Standing
from sim.report.time_unit import TimeUnit, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

ROLE_COLOURS = {
    "ours": COLOURS[1],
    "composite": COLOURS[0],
    "published": COLOURS[2],
    "linear_score": COLOURS[3],
    "global_queue": COLOURS[5],
    "reference": GREY,
    "ablation": COLOURS[4],
}
_CUT_AT = 8.0  # bars end at so many times the best; their labels still tell the value
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
    for axes, setting in zip(panels, settings, strict=False):
        _draw(axes, setting, confidence)
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


def _draw(axes: Axes, setting: Setting, confidence: float) -> None:
    known = [s for s in setting.standings if "jct_mean_s" in s.intervals]
    unit = unit_for(s.intervals["jct_mean_s"].centre for s in known)
    best_s = min((s.intervals["jct_mean_s"].centre for s in known), default=0.0)
    cut = _CUT_AT * best_s / unit.length_s if best_s > 0 else np.inf
    axes.set_yticks(range(len(known)), [s.scheduler for s in known])
    axes.invert_yaxis()
    longest = max((s.intervals["jct_mean_s"].centre for s in known), default=0.0)
    axes.set_xlim(0, _ROOM * min(longest / unit.length_s, cut) or 1.0)
    axes.set_xlabel(f"mean JCT [{unit.name}], {confidence:.0%} interval")
    for place, standing in enumerate(known):
        _bar(axes, place, standing, unit, cut)
    heading(axes, _two_lines(setting.title))
    tidy(axes, grid="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _two_lines(title: str) -> str:
    """The title broken at its middle comma, to fit above a panel."""
    parts = title.split(", ")
    half = len(parts) // 2
    return ", ".join(parts[:half]) + ",\n" + ", ".join(parts[half:])


def _bar(axes: Axes, place: int, standing: Standing, unit: TimeUnit, cut: float) -> None:
    interval = standing.intervals["jct_mean_s"]
    centre = interval.centre / unit.length_s
    low, high = interval.low / unit.length_s, interval.high / unit.length_s
    axes.barh(place, min(centre, cut), color=ROLE_COLOURS[standing.role], height=0.68)
    end = min(centre, cut)
    if not np.isnan(low) and centre <= cut:
        end = min(high, axes.get_xlim()[1] * 0.86)  # a far end is cut, so that bars stay long
        axes.hlines(place, max(low, 0.0), end, color="#222222", linewidth=1.4)
        if end < high:
            axes.plot(end, place, ">", color="#222222", markersize=5)
    label = f"  {centre:.3g}" + (" (bar cut)" if centre > cut else "")
    axes.annotate(
        label, (end, place), va="center", fontsize=9,
        fontweight="bold" if standing.role == "ours" else "normal",
    )  # fmt: skip
