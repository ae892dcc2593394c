"""Figure: mean JCT of every scheduler in every cell, over the best one there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim.arrays import FloatArray
from sim.report.figure_style import USE_MAP, heading, new_figure, save_png
from sim.report.league_runs import METRIC, League

MOST_TIMES = 16.0  # the colour scale ends here; the numbers do not
_DARK = 0.55  # share of the scale above which numbers are white


def league_heat(league: League, *, names: Sequence[str], cells: Sequence[str], path: Path) -> None:
    """A line a scheduler, a column a cell; each number is relative to the best of its column.

    Args:
        league: the runs.
        names: schedulers, top first.
        cells: cells, left first.
        path: PNG to write.
    """
    times = _times(league, names, cells)
    scale = np.log(np.minimum(times, MOST_TIMES)) / np.log(MOST_TIMES)  # 0 best
    figure = new_figure(4.5 + 0.62 * len(cells), 2.6 + 0.2 * len(names))
    axes = figure.subplots()
    axes.imshow(scale, cmap=USE_MAP, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    for row, column in np.argwhere(~np.isnan(times)).tolist():
        axes.text(
            column, row, f"{times[row, column]:.3g}", ha="center", va="center", fontsize=6.5,
            color="white" if scale[row, column] > _DARK else "#222222",
        )  # fmt: skip
    axes.set_xticks(range(len(cells)), list(cells), rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(names)), list(names), fontsize=7)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    heading(axes, "Mean JCT over that of the best in the cell")
    save_png(figure, path)


def _times(league: League, names: Sequence[str], cells: Sequence[str]) -> FloatArray:
    """(schedulers, cells) geometric mean over windows, over the smallest of the column.

    A scheduler with fewer windows is divided by the best of the complete ones on its own windows.
    NaN where it did not run.
    """
    found = np.full((len(names), len(cells)), np.nan)
    for column, cell in enumerate(cells):
        logs = {
            name: {p: float(np.log(r.row.metrics[METRIC]))
                   for p, r in league.runs[name].items() if p[0] == cell}
            for name in names
        }  # fmt: skip
        most = max(map(len, logs.values()))
        whole = {n: v for n, v in logs.items() if len(v) == most and most}
        if not whole:
            continue
        best = min(whole.values(), key=lambda v: float(np.mean(list(v.values()))))
        for row, name in enumerate(names):
            shared = [value - best[place] for place, value in logs[name].items() if place in best]
            if shared:
                found[row, column] = np.exp(np.mean(shared))
    return found
