"""Figure: how often the truth lies inside a model's intervals, against how often it should."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from interference.evaluation.held_out import HeldOut
from interference.evaluation.judge import Judged
from interference.models.lineup import LEARNED
from sim.arrays import FloatArray
from sim.report.figure_style import GREY, heading, line_look, new_figure, save_png, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.arange(10, 96, 5) / 100.0
OWN_SPREADS = 0.5  # share of rows with a spread of their own from which a model is drawn


def reliability(judged: Judged, *, title: str, path: Path) -> None:
    """Draw a panel a split and a line a model whose spread tells rows apart.

    Models with one spread for all rows of a fit are left out: theirs is no claim about a row.

    Args:
        judged: split -> model -> predictions.
        title: of which data set.
        path: PNG to write.
    """
    figure = new_figure(4.2 * len(judged) + 1.0, 4.6)
    panels = figure.subplots(1, len(judged), sharey=True, squeeze=False)[0]
    names = [LEARNED, *(name for name in next(iter(judged.values())) if name != LEARNED)]
    drawn = [name for name in names if any(_drawn(by, name) for by in judged.values())]
    places = {name: place for place, name in enumerate(drawn)}
    for axes, (split, by_model) in zip(panels, judged.items(), strict=True):
        _panel(axes, by_model, places)
        heading(axes, split)
    panels[0].set_ylabel("truths inside the interval")
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    figure.legend(lines.values(), list(map(str, lines)), loc="outside lower center",
                  ncols=max(2, 2 * len(judged)), fontsize=9, frameon=False)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def covered(held: HeldOut) -> FloatArray:
    """(L,) share of truths inside the central interval of each of LEVELS, for normal errors."""
    error = np.abs(held.told.norm_speed - held.rows.norm_speed) / held.told.sd
    half = norm.ppf((1.0 + LEVELS) / 2.0)
    return np.asarray((error[:, None] <= half).mean(axis=0))


def tells_rows_apart(held: HeldOut) -> bool:
    """Whether the spread is each row's own, not one number a fit and GPU type."""
    return len(np.unique(held.told.sd)) > OWN_SPREADS * len(held.rows)


def _drawn(by_model: Mapping[str, HeldOut], name: str) -> bool:
    return name in by_model and tells_rows_apart(by_model[name])


def _panel(axes: Axes, by_model: Mapping[str, HeldOut], places: Mapping[str, int]) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="ideal")
    for name, place in places.items():
        if _drawn(by_model, name):
            look = line_look(place) | {"linewidth": 2.6 if name == LEARNED else 1.3}
            axes.plot(LEVELS, covered(by_model[name]), label=name, **look)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("nominal level of the interval")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    tidy(axes, grid="both")
