"""Figures of searches for plans of DAGs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.report.figure_style import (
    COLOURS,
    GREY,
    heading,
    line_look,
    new_figure,
    save_png,
    tidy,
)
from sim.report.ranks import Ranking


def draw_ranks(found: Ranking, *, ours: str, path: Path) -> None:
    """Mean ranks with bars of Nemenyi's critical difference; bars that touch do not differ."""
    places = list(range(len(found.names)))
    figure = new_figure(8.0, 1.5 + 0.3 * len(places))
    axes = figure.subplots()
    half = found.critical_difference / 2
    low, high = found.mean_ranks - half, found.mean_ranks + half
    axes.hlines(places, low, high, color="#C8C8C8", linewidth=4)
    colours = [COLOURS[1] if name == ours else COLOURS[0] for name in found.names]
    axes.scatter(found.mean_ranks, places, color=colours, s=40, zorder=3)
    axes.set_yticks(places, list(found.names))
    axes.invert_yaxis()
    axes.set_xlabel(
        f"mean rank over {found.blocks} problems, 1 is best; critical difference "
        f"{found.critical_difference:.2f}"
    )
    heading(axes, f"Ranks, Friedman p = {found.friedman_p:.2g}")
    tidy(axes, grid="x")
    save_png(figure, path)


def draw_progress(
    rows: Sequence[Mapping[str, Any]], methods: Sequence[str], *, ours: str, path: Path
) -> None:
    """The best makespan over HEFT's, mean over problems, while plans are judged."""
    figure = new_figure(8.0, 4.5)
    axes = figure.subplots()
    searches = [m for m in methods if any(r["method"] == m and r["judged"] > 1 for r in rows)]
    for place, method in enumerate(searches):
        mine = [row for row in rows if row["method"] == method]
        curve = np.mean([np.array(row["history_s"]) / row["heft_s"] for row in mine], axis=0)
        plans = np.linspace(1 / len(curve), 1, len(curve)) * max(row["judged"] for row in mine)
        look = line_look(place) | ({"linewidth": 3.0} if method == ours else {})
        axes.plot(plans, curve, label=method, **look)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set_yscale("log")
    for axis_part in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis_part(lambda value, _: f"{value:.3g}")
    axes.set_xlabel("plans judged")
    axes.set_ylabel("best makespan over HEFT's, mean")
    heading(axes, "Searches at equal budget")
    tidy(axes, grid="both")
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    save_png(figure, path)
