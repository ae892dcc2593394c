"""Figures of studies: JCT over the best of each cell, mean ranks (Demsar 2006), training curves."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray
from sim.files import ReportError
from sim.report.figures import COLOURS, GREY, STROKES, USE_MAP, heading, new_figure, save_png, tidy
from sim.report.league import METRIC, League
from sim.report.significance import Ranking, insignificant_stretches
from sim.times import unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_TIMES = 16.0  # the colour scale ends here; the numbers do not
_DARK = 0.55  # share of the scale above which numbers are white


def league_heat(league: League, *, names: Sequence[str], cells: Sequence[str], path: Path) -> None:
    """A line a scheduler, a column a cell, as PNG; numbers are over the best of the column."""
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


INFORMATION_COLOURS = {
    "none": COLOURS[0], "limit": COLOURS[1], "predicted": COLOURS[2], "oracle": GREY,
}  # fmt: skip
_STEP = 0.018  # between two lines of the right margin, as a share of the width
_MOST_LANES = 6


def rank_figure(
    found: Ranking,
    *,
    path: Path,
    over: str = "windows",
    information: Mapping[str, str] | None = None,
    ours: str | None = None,
) -> None:
    """A dot a scheduler, best on top, as PNG; lines at the right join what is not told apart.

    Blocks are called `over`, colours go by `information` on durations, and `ours` stands out.
    """
    count = len(found.names)
    figure = new_figure(9.0, 1.8 + 0.22 * count)
    axes = figure.subplots()
    places = list(range(count))
    known = information or {}
    colours = [INFORMATION_COLOURS.get(known.get(name, "none"), GREY) for name in found.names]
    if ours is not None:
        colours[found.names.index(ours)] = COLOURS[1]
    half = found.critical_difference / 2
    axes.hlines(
        places, found.mean_ranks - half, found.mean_ranks + half, color="#C8C8C8", linewidth=3
    )
    axes.scatter(found.mean_ranks, places, color=colours, s=34, zorder=3)
    axes.set_yticks(places, list(found.names), fontsize=8)
    axes.set_ylim(count - 0.4, -0.6)
    _join(axes, found)
    axes.set_xlabel(
        f"mean rank over {found.blocks} {over}, 1 is best; bars that do not overlap\ndiffer at "
        f"{found.level:g} (critical difference {found.critical_difference:.2f})"
    )
    heading(axes, f"Mean ranks, Friedman p = {found.friedman_p:.2g}")
    tidy(axes, grid="x")
    if known:
        _legend(axes, {*known.values()})
    save_png(figure, path)


def _join(axes: Axes, found: Ranking) -> None:
    """Upright lines at the right, one a stretch, side by side where they overlap.

    With many stretches the bars, which say the same, have to do.
    """
    lanes: list[int] = []  # last place that each lane holds
    lines = []
    for first, last in insignificant_stretches(found):
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


_NEEDED = ("iteration", "return_mean")


@dataclass(frozen=True)
class LearningCurve:
    """N iterations."""

    iteration: FloatArray  # (N,)
    return_mean: FloatArray  # (N,) mean episode return; NaN where no episode ended
    eval_jct_mean_s: FloatArray  # (N,) mean JCT on evaluation windows; NaN where not evaluated


def read_learning_curve(path: Path) -> LearningCurve:
    """Read columns `iteration`, `return_mean` and, if it is there, `eval_jct_mean_s`.

    Other columns are passed over; an empty cell is NaN.

    Raises:
        ReportError: a column is missing, a cell is no number, or there is no line.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        missing = [name for name in _NEEDED if name not in (lines.fieldnames or ())]
        if missing:
            raise ReportError(f"{path}, line 1: column {missing[0]!r} is missing")
        rows = [
            [
                _number(path, lines.line_num, name, row.get(name))
                for name in (*_NEEDED, "eval_jct_mean_s")
            ]
            for row in lines
        ]
    if not rows:
        raise ReportError(f"{path}: holds no iteration; train for at least one")
    return LearningCurve(*np.array(rows).T)


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise ReportError(f"{path}, line {line}: {column} is {text!r}; not a number") from None


_SMOOTH_FROM = 20  # iterations from which a running mean helps the eye
_SMOOTH_SHARE = 0.05  # of the iterations, on each side


def learning_curve(curve: LearningCurve, *, references_s: Mapping[str, float], path: Path) -> None:
    """Draw the return and, if the policy was evaluated, its mean JCT beside it, as PNG.

    The axis of the JCT shows the change and need not begin at 0; a line says where it started.
    `references_s` are other schedulers' mean JCT on the same windows, drawn as level lines.
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
        import pandas as pd  # heavy: only long runs need it

        width = 2 * max(int(len(curve.iteration) * _SMOOTH_SHARE), 1) + 1
        windows = pd.Series(curve.return_mean).rolling(width, center=True, min_periods=1)
        running = windows.mean().to_numpy()  # leaves NaN out; narrower at both ends
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
    axes.set_ylabel(f"mean JCT, geometric mean over windows [{unit.name}]")
    axes.legend(fontsize=8.5, frameon=False, loc="best")
    heading(axes, "Evaluation: lower is better")
