"""Figure: distribution of job completion times, one curve a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray
from sim.report.errors import ReportError
from sim.report.figure_style import Run, heading, line_look, looks, new_figure, save_png, tidy
from sim.report.time_unit import DAYS, HOURS, MINUTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHORTEST_S = 1.0  # a logarithmic axis has no 0; shorter jobs are drawn here
_MOST_INSIDE = 8  # a longer legend would cover the curves
_LONG_NAME = 26  # two longer ones do not stand side by side
_TICKS_S = {
    1.0: "1 s",
    10.0: "10 s",
    MINUTES.length_s: "1 min",
    10 * MINUTES.length_s: "10 min",
    HOURS.length_s: "1 h",
    10 * HOURS.length_s: "10 h",
    4 * DAYS.length_s: "4 d",
    40 * DAYS.length_s: "40 d",
}


def jct_cdf(
    jct_s: Mapping[str, FloatArray], *, path: Path, runs: Mapping[str, Run] | None = None
) -> None:
    """Draw the share of jobs that took at most so long, on a logarithmic axis.

    Args:
        jct_s: scheduler -> completion times (n,) of its counted jobs, without NaN.
        path: PNG to write.
        runs: curve -> scheduler and role, for colours that other figures have too.

    Raises:
        ReportError: no scheduler, or one without a finished job.
    """
    if not jct_s or not all(len(times) for times in jct_s.values()):
        empty = [name for name, times in jct_s.items() if not len(times)]
        raise ReportError(f"no finished jobs to draw in {path.name}: {', '.join(empty) or 'none'}")
    below = len(jct_s) > _MOST_INSIDE
    columns = 1 if max(map(len, jct_s)) > _LONG_NAME else 2
    figure = new_figure(7.5, 4.6 + (0.2 / columns * len(jct_s) if below else 0.0))
    axes = figure.subplots()
    known = {} if runs is None else looks(runs)
    for place, name in enumerate(sorted(jct_s, key=lambda name: float(np.mean(jct_s[name])))):
        times = np.sort(np.maximum(jct_s[name], _SHORTEST_S))
        share = np.arange(1, len(times) + 1) / len(times)
        label = f"{name}  (mean {_human(float(np.mean(jct_s[name])))})"
        axes.step(times, share, where="post", label=label, **known.get(name, line_look(place)))
    _dress(axes, max(float(times.max()) for times in jct_s.values()))
    if below:
        figure.legend(loc="outside lower center", ncols=columns, fontsize=8.5, frameon=False)
    else:
        axes.legend(fontsize=8.5, loc="best", frameon=True, framealpha=0.9, edgecolor="none")
    save_png(figure, path)


def _dress(axes: Axes, longest_s: float) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(_TICKS_S), list(_TICKS_S.values()))
    axes.set_xticks([], minor=True)
    axes.set_xlim(_SHORTEST_S, max(longest_s, 10 * _SHORTEST_S) * 1.1)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel("job completion time (log scale)")
    axes.set_ylabel("share of jobs done within it")
    heading(axes, "Job completion times: further left and up is better")
    tidy(axes, grid="both")


def _human(time_s: float) -> str:
    for unit in (HOURS, MINUTES):
        if time_s >= unit.length_s:
            return f"{time_s / unit.length_s:.3g} {unit.name}"
    return f"{time_s:.3g} s"
