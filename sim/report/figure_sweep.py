"""Figure: mean JCT of every scheduler over a number that was swept."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim.report.figure_style import heading, looks, new_figure, save_png, tidy
from sim.report.sweep import Sweep

MOST_LINES = 14


def sweep_lines(sweep: Sweep, *, path: Path) -> bool:
    """Draw a line a scheduler (and a value of what else was swept), with intervals.

    Args:
        sweep: what was swept.
        path: PNG to write.

    Returns:
        Whether there was a number to draw over, and no more lines than can be told apart.
    """
    found = sweep.numbers()
    if found is None:
        return False
    place, numbers = found
    lines: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    length_s = sweep.unit.length_s
    for point, number in zip(sweep.points, numbers, strict=True):
        for name in sweep.roles:
            interval = sweep.cells.get((name, point))
            if interval is not None:
                rest = (name, *(v for at, v in enumerate(point) if at != place))
                times = (interval.centre, interval.low, interval.high)
                lines.setdefault(rest, []).append((number, *(t / length_s for t in times)))
    if len(lines) > MOST_LINES:
        return False
    figure = new_figure(8.0, 4.6 + 0.2 * len(lines))
    axes = figure.subplots()
    look = looks({", ".join(rest): (rest[0], sweep.roles[rest[0]]) for rest in lines})
    for rest, values in lines.items():
        x, centre, low, high = np.array(sorted(values)).T
        name = ", ".join(rest)
        axes.plot(x, centre, marker="o", markersize=4, label=name, **look[name])
        axes.fill_between(x, low, high, color=look[name]["color"], alpha=0.12, linewidth=0)
    axes.set_xlabel(sweep.keys[place])
    axes.set_ylabel(f"mean JCT [{sweep.unit.name}]")
    heading(axes, "Lower is better")
    tidy(axes, grid="both")
    figure.legend(loc="outside lower center", ncols=1, fontsize=8.5, frameon=False)
    save_png(figure, path)
    return True
