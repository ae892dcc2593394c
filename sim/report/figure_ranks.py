"""Figure: mean ranks with Nemenyi's critical difference (after Demsar 2006, figure 1, upright)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sim.report.figure_style import COLOURS, GREY, heading, new_figure, save_png, tidy
from sim.report.ranks import Ranking, not_told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INFORMATION_COLOURS = {
    "none": COLOURS[0], "limit": COLOURS[1], "predicted": COLOURS[2], "oracle": GREY,
}  # fmt: skip
_STEP = 0.018  # between two lines of the right margin, as a share of the width
_MOST_LANES = 6


def rank_figure(found: Ranking, *, information: Mapping[str, str], path: Path) -> None:
    """A dot a scheduler, best on top; lines at the right join those that are not told apart.

    Args:
        found: mean ranks and critical difference.
        information: scheduler -> what it knows of durations, for the colour.
        path: PNG to write.
    """
    count = len(found.names)
    figure = new_figure(9.0, 1.8 + 0.22 * count)
    axes = figure.subplots()
    places = list(range(count))
    colours = [INFORMATION_COLOURS.get(information[name], GREY) for name in found.names]
    half = found.critical_difference / 2
    axes.hlines(
        places, found.mean_ranks - half, found.mean_ranks + half, color="#C8C8C8", linewidth=3
    )
    axes.scatter(found.mean_ranks, places, color=colours, s=34, zorder=3)
    axes.set_yticks(places, list(found.names), fontsize=8)
    axes.set_ylim(count - 0.4, -0.6)
    _join(axes, found)
    axes.set_xlabel(
        f"mean rank over {found.blocks} windows, 1 is best; bars that do not overlap\ndiffer at "
        f"{found.level:g} (critical difference {found.critical_difference:.2f})"
    )
    heading(axes, f"Mean ranks, Friedman p = {found.friedman_p:.2g}")
    tidy(axes, grid="x")
    _legend(axes, {information[name] for name in found.names})
    save_png(figure, path)


def _join(axes: Axes, found: Ranking) -> None:
    """Upright lines at the right, one a stretch, side by side where they overlap.

    With many stretches the bars, which say the same, have to do.
    """
    lanes: list[int] = []  # last place that each lane holds
    lines = []
    for first, last in not_told_apart(found):
        lane = next((n for n, end in enumerate(lanes) if end < first), len(lanes))
        lanes[lane : lane + 1] = [last]
        lines.append((lane, first, last))
    if len(lanes) > _MOST_LANES:
        return
    low, high = axes.get_xlim()
    for lane, first, last in lines:
        place = high + _STEP * (high - low) * (lane + 1)
        axes.vlines(place, first - 0.25, last + 0.25, color="#222222", linewidth=2)
    axes.set_xlim(low, high + _STEP * (high - low) * (len(lanes) + 1))


def _legend(axes: Axes, known: set[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=f"durations: {name}")
        for name, colour in INFORMATION_COLOURS.items()
        if name in known
    ]
    axes.legend(handles=handles, fontsize=8, loc="lower left", frameon=False)
