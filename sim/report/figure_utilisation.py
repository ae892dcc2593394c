"""Figure: GPU utilisation and queue length over time, for a few schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.timeline import Timeline
from sim.report.errors import ReportError
from sim.report.figure_style import Run, heading, line_look, looks, new_figure, save_png, tidy
from sim.report.time_unit import TimeUnit, axis_unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SCHEDULERS = 4  # more lines than this cannot be told apart where they cross
_UTILISATION_BINS = 100


def utilisation_queue(
    timelines: Mapping[str, Timeline], *, path: Path, runs: Mapping[str, Run] | None = None
) -> None:
    """Draw utilisation above and waiting jobs below, on one time axis.

    Args:
        timelines: scheduler -> timeline; the first four are drawn, so put those that matter first.
        path: PNG to write.
        runs: line -> scheduler and role, for colours that other figures have too.

    Raises:
        ReportError: no scheduler is given.
    """
    if not timelines:
        raise ReportError(f"no runs to draw in {path.name}; give at least one")
    shown = dict(list(timelines.items())[:MOST_SCHEDULERS])
    unit = axis_unit_for(max(float(line.time_s[-1]) for line in shown.values()))
    figure = new_figure(8.5, 5.4)
    above, below = figure.subplots(2, 1, sharex=True)
    known = {} if runs is None else looks(runs)
    for place, (name, line) in enumerate(shown.items()):
        time = line.time_s / unit.length_s
        look = {**known.get(name, line_look(place)), "linewidth": 1.3}
        above.step(*_coarser(time, line.gpu_util_frac), where="post", label=name, **look)
        below.step(time, line.queue_jobs, where="post", **look)
    _dress(above, below, unit)
    below.set_xlim(0, max(float(line.time_s[-1]) for line in shown.values()) / unit.length_s)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    if len(timelines) > len(shown):
        below.annotate(
            f"{len(shown)} of {len(timelines)} schedulers shown", (1, 1), xycoords="axes fraction",
            ha="right", va="top", fontsize=8,
        )  # fmt: skip
    save_png(figure, path)


def _coarser(time: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means over whole groups of bins: busy GPUs flicker too fast for lines that cross."""
    group = max(len(values) // _UTILISATION_BINS, 1)
    starts = np.arange(0, len(values), group)
    sizes = np.diff(np.append(starts, len(values)))
    means: FloatArray = np.add.reduceat(values, starts) / sizes
    return time[starts], means


def _dress(above: Axes, below: Axes, unit: TimeUnit) -> None:
    above.set_ylim(0, 1.02)
    above.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    above.set_ylabel("GPUs with a tenant")
    heading(above, "GPU utilisation")
    below.set_ylim(bottom=0)
    below.set_ylabel("waiting jobs")
    below.set_xlabel(f"time since the first submission [{unit.name}]")
    heading(below, "Queue length")
    tidy(above, grid="y")
    tidy(below, grid="y")
