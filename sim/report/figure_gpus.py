"""Figures of GPUs: who held which when, and how much each was used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.report.figures import (
    COLOURS,
    GREY,
    JOB_COLOURS,
    USE_MAP,
    heading,
    line_look,
    new_figure,
    save_png,
    tidy,
)
from sim.report.gpu_use import (
    Tenancy,
    frac_by_gpu,
    frac_by_server,
    queue_by_partition,
    spells,
    tenancy_of,
)
from sim.report.job_times import mean_of
from sim.report.run_tables import server_names
from sim.report.timeline import down_changes, gpu_changes, queue_over_time, span_s
from sim.run import Run
from sim.times import TimeUnit, axis_unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_GPUS = 128  # rows that can be told apart
MOST_JOBS = 200  # in the whole run; more are shown for a part of the time only
MOST_BARS = 600  # attempts in that part
USE_ROWS, USE_BINS = 160, 400  # of the use of all servers
LABEL_POINTS = (22.0, 4.2)  # smaller blocks, in width or height, carry no number


def gantt(run: Run, *, path: Path) -> None:
    """Draw GPUs against time with jobs as coloured bars, as PNG.

    A row is split while its GPU is shared, hatched while its server is away. Up to 128 GPUs and
    200 jobs all is shown. Of a larger cluster servers are sampled evenly, of a longer run the time
    around its longest queue is shown, and a second panel has the use of all servers over the
    whole run.
    """
    start_s, end_s = span_s(run)
    servers = _sampled(run)
    first = run.topology.server_first_gpu
    gpus = np.concatenate([np.arange(first[s], first[s + 1]) for s in servers.tolist()])
    rows = len(gpus)
    bars = tenancy_of(run, gpus)
    low_s, high_s = _shown_time(run, bars)
    whole = len(servers) == run.topology.num_servers and (low_s, high_s) == (start_s, end_s)
    height_in = max(1.6 + 0.075 * rows, 3.2)
    figure = new_figure(11.0, height_in + (0.0 if whole else 3.4))
    ratios = [height_in] if whole else [height_in, 3.4]
    panels = figure.subplots(len(ratios), 1, height_ratios=ratios, squeeze=False)[:, 0]
    unit = axis_unit_for(end_s - start_s)
    _draw_down(panels[0], run, gpus, unit)
    _draw_servers(panels[0], run, servers)
    draw_bars(panels[0], bars, (low_s, high_s), start_s, unit)
    some = len(servers) < run.topology.num_servers
    shown = f", {len(servers)} of {run.topology.num_servers} servers" if some else ""
    heading(panels[0], f"GPUs under {run.scheduler}{shown} (numbers: rows of jobs.parquet)")
    panels[0].set_xlabel(f"time since the first submission [{unit.name}]")
    if not whole:
        _draw_use(figure, panels[1], run, (low_s, high_s), unit)
    save_png(figure, path)


def _sampled(run: Run) -> IntArray:
    """Servers to show: all, or evenly spaced ones with at most MOST_GPUS GPUs."""
    sizes = run.topology.gpus_per_server
    if int(sizes.sum()) <= MOST_GPUS:
        return np.arange(len(sizes))
    count = max(1, int(MOST_GPUS // sizes.max()))
    return np.unique(np.linspace(0, len(sizes) - 1, count).astype(np.int64))


def _shown_time(run: Run, bars: Tenancy) -> tuple[float, float]:
    """The whole run, or the time around its longest queue that has MOST_BARS attempts or so."""
    start_s, end_s = span_s(run)
    if len(run.jobs) <= MOST_JOBS or not len(bars.start_s):
        return start_s, end_s
    queue = queue_over_time(run)
    middle_s = float(queue.time_s[int(np.argmax(queue.value))]) if len(queue.time_s) else start_s
    _, first = np.unique(
        np.stack([bars.job.astype(np.float64), bars.start_s]), axis=1, return_index=True
    )
    starts_s = np.sort(bars.start_s[first])
    if len(starts_s) <= MOST_BARS:
        return start_s, end_s
    at = int(np.searchsorted(starts_s, middle_s)) - MOST_BARS // 2
    low = min(max(at, 0), len(starts_s) - MOST_BARS)
    low_s, high_s = float(starts_s[low]), float(starts_s[low + MOST_BARS - 1])
    return (low_s, high_s) if high_s > low_s else (start_s, end_s)


def _draw_down(axes: Axes, run: Run, gpus: IntArray, unit: TimeUnit) -> None:
    """Hatch the time during which the server of a GPU is away."""
    start_s, end_s = span_s(run)
    row_of_gpu = {gpu: row for row, gpu in enumerate(gpus.tolist())}
    for gpu, *time_s in spells(down_changes(run.log), end_s):
        if gpu in row_of_gpu:
            left, right = ((each - start_s) / unit.length_s for each in time_s)
            axes.broken_barh(
                [(left, right - left)], (row_of_gpu[gpu], 1.0), facecolor="#F0F0F0",
                edgecolor="#C8C8C8", hatch="////", linewidth=0.0, zorder=0,
            )  # fmt: skip


def draw_bars(
    axes: Axes, bars: Tenancy, shown_s: tuple[float, float], origin_s: float, unit: TimeUnit
) -> None:
    """Draw tenants as bars: a row a GPU from 0, split where it is shared, a colour a job.

    `shown_s` is (first, last) and `origin_s` 0 on its axis; the limits of the other are set before.
    """
    from matplotlib.collections import PolyCollection

    low, high = ((time_s - origin_s) / unit.length_s for time_s in shown_s)
    inside = (bars.end_s >= shown_s[0]) & (bars.start_s <= shown_s[1])
    left = (np.maximum(bars.start_s[inside], shown_s[0]) - origin_s) / unit.length_s
    right = (np.minimum(bars.end_s[inside], shown_s[1]) - origin_s) / unit.length_s
    height = 1.0 / bars.tenants[inside]
    top = bars.row[inside] + bars.place[inside] * height
    ends = ((left, top), (right, top), (right, top + height), (left, top + height))
    corners = np.stack([np.stack(end, axis=1) for end in ends], axis=1)  # (bars, 4, 2)
    colours = [JOB_COLOURS[job % len(JOB_COLOURS)] for job in bars.job[inside].tolist()]
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, linewidths=0.0))
    axes.set_xlim(low, high if high > low else low + 1.0)
    _number(axes, bars.job[inside], left, right, top, height)


def _number(
    axes: Axes,
    job: IntArray,
    left: FloatArray,
    right: FloatArray,
    top: FloatArray,
    height: FloatArray,
) -> None:
    """Write the number of a job once into the middle of each block of its bars that has room."""
    spans = np.ptp([axes.get_xlim(), axes.get_ylim()], axis=1)
    width, high = np.array(LABEL_POINTS) * axes.figure.dpi / 72.0 / axes.bbox.size * spans
    wide = np.flatnonzero(right - left > width)
    order = wide[np.lexsort((top[wide], left[wide], job[wide]))]
    before, after = order[:-1], order[1:]
    apart = (job[before] != job[after]) | (left[before] != left[after])
    apart |= np.abs(top[after] - top[before] - height[before]) >= height[before] / 2
    for block in filter(len, np.split(order, np.flatnonzero(apart) + 1)):
        bar, upper = block[-1], top[block[0]]
        lower = top[bar] + height[bar]
        if lower - upper >= high:
            axes.text(
                (left[bar] + right[bar]) / 2, (upper + lower) / 2, str(job[bar]), ha="center",
                va="center", fontsize=6.0, color="#202020",
            )  # fmt: skip


def _draw_servers(axes: Axes, run: Run, servers: IntArray) -> None:
    """Lines between servers, thicker ones between racks, names at the left."""
    sizes = run.topology.gpus_per_server[servers]
    ends = np.cumsum(sizes)
    rack = run.topology.server_rack[servers]
    for place, end in enumerate(ends[:-1].tolist()):
        colour, width = ("#B0B0B0", 0.5) if rack[place] == rack[place + 1] else ("#303030", 1.0)
        axes.axhline(end, color=colour, linewidth=width)
    names = server_names(run.topology)
    axes.set_yticks(
        (ends - sizes / 2).tolist(), [f"server {names[server]}" for server in servers.tolist()]
    )
    axes.set_ylim(float(ends[-1]), 0.0)
    tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)


def _draw_use(
    figure: Figure, axes: Axes, run: Run, shown_s: tuple[float, float], unit: TimeUnit
) -> None:
    """Share of busy GPUs of all servers over the whole run, as an image."""
    start_s, end_s = span_s(run)
    use = frac_by_server(run, gpu_changes(run.log), rows=USE_ROWS, bins=USE_BINS)
    length = (end_s - start_s) / unit.length_s or 1.0
    image = axes.imshow(
        use, aspect="auto", cmap=USE_MAP, vmin=0.0, vmax=1.0, interpolation="nearest",
        extent=(0.0, length, run.topology.num_servers, 0.0),
    )  # fmt: skip
    title = "Busy GPUs of all servers"
    if shown_s != (start_s, end_s):
        title += " (orange: the time shown above, around the longest queue)"
        low, high = ((time_s - start_s) / unit.length_s for time_s in shown_s)
        axes.axvspan(low, high, facecolor="none", edgecolor="#D55E00", linewidth=1.5)
    axes.set_xlabel(f"time since the first submission [{unit.name}]")
    axes.set_ylabel("server")
    heading(axes, title)
    axes.tick_params(labelsize=9)
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    bar.ax.tick_params(labelsize=8)


MOST_RACKS = 48  # lines of the map
MOST_GPUS_A_RACK = 160  # more: one cell a server
MOST_LINES = 7  # partitions; more are shown as an image
BINS = 300
_GAP = 0.35  # between servers, in cells


def heatmap(run: Run, *, path: Path, at_s: float | None) -> None:
    """Draw the tree of the cluster coloured by use, above the queues of the partitions, as PNG.

    Use is that at simulated time `at_s`; None: the share of the whole run.
    """
    start_s, end_s = span_s(run)
    low_s, high_s = (start_s, end_s) if at_s is None else (at_s, at_s)
    busy, gone = (
        frac_by_gpu(changes, run.topology.num_gpus, start_s=low_s, end_s=high_s)
        for changes in (gpu_changes(run.log), down_changes(run.log))
    )
    busy[gone >= 1.0] = np.nan
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
    return mean_of(values[~np.isnan(values)])


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
