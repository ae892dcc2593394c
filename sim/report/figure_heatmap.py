"""Figure: how much each GPU was used, racks over servers over GPUs, and who waited where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.metrics.gpu_use import busy_frac_by_gpu, down_frac_by_gpu, queue_by_partition
from sim.metrics.over_time import span_s
from sim.report.figure_style import (
    COLOURS,
    GREY,
    USE_MAP,
    heading,
    line_look,
    new_figure,
    save_png,
    tidy,
)
from sim.report.time_unit import axis_unit_for
from sim.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RACKS = 48  # lines of the map
MOST_GPUS_A_RACK = 160  # more: one cell a server
MOST_LINES = 7  # partitions; more are shown as an image
BINS = 300
_GAP = 0.35  # between servers, in cells


def heatmap(run: Run, *, path: Path, at_s: float | None) -> None:
    """Draw the tree of the cluster coloured by use, above the queues of the partitions.

    Args:
        run: the run.
        path: PNG to write.
        at_s: simulated time of a snapshot; None: the share of the whole run.
    """
    start_s, end_s = span_s(run)
    low_s, high_s = (start_s, end_s) if at_s is None else (at_s, at_s)
    busy = busy_frac_by_gpu(run, start_s=low_s, end_s=high_s)
    gone = down_frac_by_gpu(run, start_s=low_s, end_s=high_s) >= 1.0
    busy[gone] = np.nan
    lines = _lines(run, busy)
    height_in = 1.5 + 0.24 * len(lines)
    figure = new_figure(11.0, height_in + 2.6)
    above, below = figure.subplots(2, 1, height_ratios=[height_in, 2.6])
    _draw_tree(figure, above, lines)
    when = "over the run" if at_s is None else f"at t = {at_s:g} s"
    heading(above, f"Busy GPUs by rack and server {when}, {run.scheduler}")
    _draw_queues(figure, below, run, at_s)
    save_png(figure, path)


def _lines(run: Run, busy: FloatArray) -> list[tuple[str, list[FloatArray]]]:
    """Title and cells (one array a server) of each line: a rack, or several of a huge cluster."""
    topology = run.topology
    first = topology.server_first_gpu
    per_gpu = np.bincount(topology.server_rack[topology.gpu_server]).max() <= MOST_GPUS_A_RACK
    racks = [np.flatnonzero(topology.server_rack == rack) for rack in range(topology.num_racks)]
    group = -(-len(racks) // MOST_RACKS)
    found = []
    for at in range(0, len(racks), group):
        some = racks[at : at + group]
        title = f"rack {at}" if len(some) == 1 else f"racks {at}-{at + len(some) - 1}"
        if group > 1:  # one cell a rack
            cells = [np.array([_mean(busy, first, rack)]) for rack in some]
        elif per_gpu:
            cells = [busy[first[s] : first[s + 1]] for s in some[0].tolist()]
        else:
            cells = [np.array([_mean(busy, first, np.array([s]))]) for s in some[0].tolist()]
        found.append((title, cells))
    return found


def _mean(busy: FloatArray, first: IntArray, servers: IntArray) -> float:
    values = np.concatenate([busy[first[s] : first[s + 1]] for s in servers.tolist()])
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _draw_tree(figure: Figure, axes: Axes, lines: list[tuple[str, list[FloatArray]]]) -> None:
    """One cell a value; grey where the server was away all the time."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection

    colours = colormaps[USE_MAP]
    gap = _GAP if any(len(cells) > 1 for _, group in lines for cells in group) else 0.0
    corners, faces = [], []
    widest = 0.0
    for row, (_, servers) in enumerate(lines):
        left = 0.0
        for cells in servers:
            for value in cells.tolist():
                box = ((left, row + 0.06), (left + 1, row + 0.06), (left + 1, row + 0.94),
                       (left, row + 0.94))  # fmt: skip
                corners.append(box)
                faces.append(GREY if np.isnan(value) else colours(value))
                left += 1.0
            left += gap
        widest = max(widest, left - gap)
    axes.add_collection(
        PolyCollection(corners, facecolors=faces, edgecolors="white", linewidths=0.3)
    )
    axes.set_xlim(0.0, widest)
    axes.set_ylim(len(lines), 0.0)
    axes.set_yticks(np.arange(len(lines)) + 0.5, [title for title, _ in lines], fontsize=8)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    bar = figure.colorbar(ScalarMappable(cmap=USE_MAP), ax=axes, pad=0.01, fraction=0.03)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    bar.ax.tick_params(labelsize=8)


def _draw_queues(figure: Figure, axes: Axes, run: Run, at_s: float | None) -> None:
    """Waiting jobs of each partition over time."""
    start_s, end_s = span_s(run)
    unit = axis_unit_for(end_s - start_s)
    queues = queue_by_partition(run)
    edges_s = np.linspace(start_s, end_s if end_s > start_s else start_s + 1.0, BINS + 1)
    waiting = np.stack([np.diff(q.integral(edges_s)) for q in queues]) / np.diff(edges_s)
    time = (edges_s[:-1] - start_s) / unit.length_s
    length = (edges_s[-1] - start_s) / unit.length_s
    if len(queues) <= MOST_LINES:
        for place, line in enumerate(waiting):
            look = {**line_look(place), "linewidth": 1.3}
            axes.step(time, line, where="post", label=f"partition {place}", **look)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("waiting jobs")
        tidy(axes, grid="y")
        if len(queues) > 1:
            axes.legend(fontsize=8, loc="upper right", ncols=len(queues), frameon=False)
    else:
        image = axes.imshow(
            waiting, aspect="auto", cmap=USE_MAP, vmin=0.0, interpolation="nearest",
            extent=(0.0, length, len(queues), 0.0),
        )  # fmt: skip
        axes.set_ylabel("partition")
        axes.tick_params(labelsize=9)
        figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03, label="waiting jobs")
    if at_s is not None:
        axes.axvline((at_s - start_s) / unit.length_s, color=COLOURS[1], linewidth=1.2)
    axes.set_xlim(0.0, length)
    axes.set_xlabel(f"time since the first submission [{unit.name}]")
    heading(axes, "Waiting jobs by partition")
