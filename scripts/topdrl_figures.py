"""Figures of TopDRL's training and comparison."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.metrics.intervals import Interval
from sim.report.figure_style import COLOURS, GREY, heading, line_look, new_figure, save_png, tidy


def training_figure(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Validation throughput and loss over decisions."""
    figure = new_figure(8.0, 5.0)
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, key, label in (
        (above, "validation", "throughput on validation windows"),
        (below, "loss", "loss"),
    ):
        kept = [row for row in rows if math.isfinite(_number(row.get(key)))]
        axes.plot([r["steps"] for r in kept], [r[key] for r in kept], **line_look(0), marker=".")
        heading(axes, label)
        tidy(axes, grid="y")
    below.set_xlabel("decisions")
    save_png(figure, path)


def bars(cells: Mapping[str, Mapping[str, Interval]], *, ours: str, what: str, path: Path) -> None:
    """A panel a cell, a bar a scheduler, with intervals."""
    names = list(next(iter(cells.values())))
    figure = new_figure(7.0, len(cells) * (0.9 + 0.3 * len(names)))
    panels = figure.subplots(len(cells), 1, squeeze=False).ravel()
    for axes, (cell, found) in zip(panels, cells.items(), strict=True):
        centres = [found[name].centre for name in names]
        low = [found[name].centre - found[name].low for name in names]
        high = [found[name].high - found[name].centre for name in names]
        colours = [COLOURS[1] if name == ours else GREY for name in names]
        axes.barh(names, centres, color=colours, xerr=[low, high], error_kw={"linewidth": 1.2})
        axes.invert_yaxis()
        heading(axes, f"{what}: {cell}")
        tidy(axes, grid="x")
    save_png(figure, path)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
