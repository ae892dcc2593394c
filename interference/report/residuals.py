"""Figure: errors of one model against what it predicted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interference.evaluation.held_out import HeldOut
from sim.report.figure_style import COLOURS, heading, new_figure, save_png, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 12
LEAST_IN_BIN = 5


def residuals(splits: Sequence[tuple[str, HeldOut]], *, title: str, path: Path) -> None:
    """Draw a panel a split: a dot a row, coloured by GPU type, and the mean error in black.

    Args:
        splits: name and predictions of each.
        title: of which data set and model.
        path: PNG to write.
    """
    figure = new_figure(4.4 * len(splits) + 0.6, 4.4)
    panels = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    kinds = sorted({kind for _, held in splits for kind in held.rows.gpu_type})
    for axes, (split, held) in zip(panels, splits, strict=True):
        _panel(axes, held, kinds)
        heading(axes, f"{split} ({len(held.rows)} rows)")
    panels[0].set_ylabel("predicted - measured")
    marks = {mark.get_label(): mark for axes in panels for mark in (*axes.collections, *axes.lines)
             if not str(mark.get_label()).startswith("_")}  # fmt: skip
    figure.legend(marks.values(), list(map(str, marks)), loc="outside lower center",
                  ncols=6, fontsize=9, frameon=False)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def _panel(axes: Axes, held: HeldOut, kinds: Sequence[str]) -> None:
    told = held.told.norm_speed
    error = told - held.rows.norm_speed
    for place, kind in enumerate(kinds):
        here = held.rows.gpu_type == kind
        axes.scatter(told[here], error[here], s=7, alpha=0.45, linewidths=0.0, label=kind,
                     color=COLOURS[place % len(COLOURS)])  # fmt: skip
    axes.axhline(0.0, color="#606060", linewidth=0.8)
    edges = np.unique(np.quantile(told, np.linspace(0.0, 1.0, BINS + 1)))
    bins = np.digitize(told, edges[1:-1])
    full = [b for b in np.unique(bins) if (bins == b).sum() >= LEAST_IN_BIN]
    axes.plot(
        [told[bins == b].mean() for b in full], [error[bins == b].mean() for b in full],
        color="black", marker="o", markersize=3, linewidth=1.4, label="mean of the dots around",
    )  # fmt: skip
    axes.set_xlabel("predicted normalised speed")
    tidy(axes, grid="both")
