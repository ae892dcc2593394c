"""Figure: return over training iterations, and mean JCT where the policy was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray
from sim.report.figure_style import COLOURS, STROKES, heading, new_figure, save_png, tidy
from sim.report.learning_curve_csv import LearningCurve
from sim.report.time_unit import unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMOOTH_FROM = 20  # iterations from which a running mean helps the eye
_SMOOTH_SHARE = 0.05  # of the iterations, on each side


def learning_curve(curve: LearningCurve, *, references_s: Mapping[str, float], path: Path) -> None:
    """Draw the return and, if the policy was evaluated, its mean JCT beside it.

    The axis of the JCT shows the change and need not begin at 0; a line says where it started.

    Args:
        curve: of one training run.
        references_s: other schedulers' mean JCT on the same windows, drawn as level lines.
        path: PNG to write.
    """
    evaluated = bool(np.any(~np.isnan(curve.eval_jct_mean_s)))
    figure = new_figure(10.5 if evaluated else 6.5, 4.0)
    panels = figure.subplots(1, 2 if evaluated else 1, squeeze=False)[0]
    _draw_return(panels[0], curve)
    if evaluated:
        _draw_evaluation(panels[1], curve, references_s)
    for axes in panels:
        axes.set_xlabel("training iteration")
        axes.xaxis.get_major_locator().set_params(integer=True)
        tidy(axes, grid="y")
    save_png(figure, path)


def _draw_return(axes: Axes, curve: LearningCurve) -> None:
    smooth = len(curve.iteration) >= _SMOOTH_FROM
    axes.plot(
        curve.iteration, curve.return_mean, color=COLOURS[0], alpha=0.35 if smooth else 1.0,
        linewidth=1.2 if smooth else 1.8, marker=None if smooth else "o", markersize=4,
        label="each iteration",
    )  # fmt: skip
    if smooth:
        running = _running_mean(curve.return_mean)
        axes.plot(curve.iteration, running, color=COLOURS[0], linewidth=2, label="running mean")
        axes.legend(fontsize=9, frameon=False, loc="lower right")
    axes.set_ylabel("mean episode return")
    heading(axes, "Training return")


def _draw_evaluation(axes: Axes, curve: LearningCurve, references_s: Mapping[str, float]) -> None:
    known = ~np.isnan(curve.eval_jct_mean_s)
    jct_s = curve.eval_jct_mean_s[known]
    unit = unit_for([*jct_s, *references_s.values()])
    axes.plot(
        curve.iteration[known], jct_s / unit.length_s, "o-", color=COLOURS[1], linewidth=1.8,
        markersize=4, label="trained policy",
    )  # fmt: skip
    start_s = float(jct_s[0])
    for place, (name, value_s) in enumerate({"its start": start_s, **references_s}.items()):
        axes.axhline(
            value_s / unit.length_s, label=name, linewidth=1.5,
            color=COLOURS[(place + 2) % len(COLOURS)], linestyle=STROKES[place % 3 + 1],
        )  # fmt: skip
    axes.set_ylabel(f"mean JCT on evaluation windows [{unit.name}]")
    axes.legend(fontsize=8.5, frameon=False, loc="best")
    heading(axes, "Evaluation: lower is better")


def _running_mean(values: FloatArray) -> FloatArray:
    """Centred mean that leaves NaN out; the window shrinks at both ends."""
    reach = max(int(len(values) * _SMOOTH_SHARE), 1)
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    place = np.arange(len(values))
    low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, len(values))
    found = counts[high] - counts[low]
    means: FloatArray = (sums[high] - sums[low]) / np.where(found > 0, found, np.nan)
    return means
