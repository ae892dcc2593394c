"""Figures of a page about the cluster: jobs on servers over time, and the tree's use."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuyard.pages.page import Figure, Slider, label, numbers
from sim.arrays import FloatArray, IntArray
from sim.event_log import Kind
from sim.metrics.gpu_changes import down_changes
from sim.metrics.over_time import span_s
from sim.metrics.server_use import busy_frac_by_server, down_frac_by_server
from sim.metrics.tenancy import tenancy_of
from sim.report.event_table import server_names
from sim.report.figure_style import JOB_COLOURS
from sim.report.time_unit import TimeUnit, axis_unit_for
from sim.run import Run
from sim.topology.topology import Topology

MOST_BARS = 2500  # a browser draws them in a second; of more jobs, shares of servers are shown
USE_ROWS, USE_BINS = 200, 400  # of those shares
MOST_TICKS = 40  # servers that are named on the axis
MOST_CELLS = 2500  # servers of the heat map; of more, a cell is a rack
LINE_LENGTH = 64  # servers of a rack that stand in one line
RACKS_A_LINE = 40
MOMENTS = 60  # of the slider
PERCENT = 100.0
BAR_TEXT, AWAY = "#20262E", "#8A94A0"
LEAST_PX, MOST_PX = 260, 900


@dataclass(frozen=True)
class Bars:
    """N stretches of jobs on neighbouring GPUs of a server."""

    job: IntArray  # (N,) row of the job table
    first_gpu: IntArray  # (N,)
    gpus: IntArray  # (N,)
    start_s: FloatArray  # (N,)
    end_s: FloatArray  # (N,)
    place: IntArray  # (N,) among the tenants of these GPUs
    tenants: IntArray  # (N,)


def gantt_figure(run: Run) -> Figure:
    """Who was where when: a bar a job and server, or shares of servers where there are too many."""
    starts = int(np.count_nonzero(run.log.kind == Kind.START))
    if starts > MOST_BARS:
        return _busy_servers(run, f"{starts:,} starts of jobs are more than can be told apart")
    bars = bars_of(run)
    if len(bars.job) > MOST_BARS:
        return _busy_servers(run, f"{len(bars.job):,} bars are more than can be told apart")
    unit = axis_unit_for(span_s(run)[1] - span_s(run)[0])
    layout = {
        "xaxis": _time_axis(unit),
        "yaxis": _server_axis(run.topology),
        "shapes": _server_lines(run.topology),
        "uniformtext": {"mode": "hide", "minsize": 9},
        "barmode": "overlay", "bargap": 0, "hovermode": "closest", "showlegend": False,
    }  # fmt: skip
    note = (
        "A bar is a job on GPUs of one server, as high as it has GPUs there; it carries the job's "
        "id where there is room. Drag to zoom, double-click to go back."
    )
    data = [*_away(run, unit), _bar_trace(run, bars, unit)]
    if len(data) > 1:
        note += " Grey: the server was away."
    height_px = int(np.clip(140 + 7 * run.topology.num_gpus, LEAST_PX, MOST_PX))
    return Figure("Jobs by server", data, layout, note, height_px, wide=True)


def bars_of(run: Run) -> Bars:
    """Stretches of all jobs, those on neighbouring GPUs of one server taken together."""
    all_ = tenancy_of(run, np.arange(run.topology.num_gpus))
    server = run.topology.gpu_server[all_.row]
    order = np.lexsort((all_.row, all_.start_s, all_.job))
    gpu = all_.row[order]
    same = np.diff(gpu, prepend=-2) == 1
    for column in (all_.job, server, all_.start_s, all_.end_s, all_.place, all_.tenants):
        same[1:] &= column[order][1:] == column[order][:-1]
    first = np.flatnonzero(~same)
    kept = order[first]
    return Bars(
        job=all_.job[kept],
        first_gpu=gpu[first],
        gpus=np.diff(np.append(first, len(gpu))),
        start_s=all_.start_s[kept],
        end_s=all_.end_s[kept],
        place=all_.place[kept],
        tenants=all_.tenants[kept],
    )


def _bar_trace(run: Run, bars: Bars, unit: TimeUnit) -> dict[str, Any]:
    origin_s = span_s(run)[0]
    height = bars.gpus / bars.tenants
    middle = bars.first_gpu + bars.place * height + height / 2
    ids = [label(run.jobs.job_id[job]) for job in bars.job.tolist()]
    names = server_names(run.topology)
    server = run.topology.gpu_server[bars.first_gpu]
    told = [
        f"{gang} GPU{'s' if gang > 1 else ''} in all, {here} here on server {label(names[at])}"
        for gang, here, at in zip(
            run.jobs.num_gpus[bars.job].tolist(), bars.gpus.tolist(), server.tolist(), strict=True
        )
    ]
    length = (bars.end_s - bars.start_s) / unit.length_s
    base = (bars.start_s - origin_s) / unit.length_s
    spans = [
        f"{low:.4g} to {high:.4g} {unit.name}"
        for low, high in zip(base.tolist(), (base + length).tolist(), strict=True)
    ]
    return {
        "type": "bar", "orientation": "h", "base": numbers(base), "x": numbers(length),
        "y": numbers(middle), "width": numbers(height),
        "marker": {
            "color": [JOB_COLOURS[job % len(JOB_COLOURS)] for job in bars.job.tolist()],
            "line": {"width": 0.5, "color": "rgba(30,40,50,0.45)"},
        },
        "text": ids, "textposition": "inside", "insidetextanchor": "middle", "textangle": 0,
        "constraintext": "inside", "insidetextfont": {"color": BAR_TEXT, "size": 10},
        "hovertext": [f"job {name}<br>{span}<br>{words}"
                      for name, span, words in zip(ids, spans, told, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _away(run: Run, unit: TimeUnit) -> list[dict[str, Any]]:
    """A trace of grey bars while servers are away; none where all stay."""
    start_s, end_s = span_s(run)
    first = run.topology.server_first_gpu
    changes = down_changes(run.log)
    lead = first[run.topology.gpu_server[changes.gpu]] == changes.gpu  # one GPU speaks for all
    since_s: dict[int, float] = {}
    found: list[tuple[int, float, float]] = []
    columns = (changes.gpu[lead], changes.time_s[lead], changes.before[lead], changes.after[lead])
    for gpu, time_s, before, after in zip(*(column.tolist() for column in columns), strict=True):
        if before == 0:
            since_s[gpu] = time_s
        elif after == 0:
            found.append((gpu, since_s.pop(gpu), time_s))
    found += [(gpu, time_s, end_s) for gpu, time_s in since_s.items()]
    if not found:
        return []
    server = run.topology.gpu_server[np.array([gpu for gpu, _, _ in found])]
    size = run.topology.gpus_per_server[server]
    names = server_names(run.topology)
    return [{
        "type": "bar", "orientation": "h", "opacity": 0.45, "marker": {"color": AWAY},
        "base": numbers((low - start_s) / unit.length_s for _, low, _ in found),
        "x": numbers((high - low) / unit.length_s for _, low, high in found),
        "y": numbers(first[server] + size / 2), "width": numbers(size),
        "hovertext": [f"server {label(names[at])} away" for at in server.tolist()],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip


def _time_axis(unit: TimeUnit) -> dict[str, Any]:
    return {
        "title": {"text": f"time since the first submission [{unit.name}]"},
        "rangemode": "tozero", "zeroline": False,
    }  # fmt: skip


def _server_axis(topology: Topology) -> dict[str, Any]:
    """GPUs from top to bottom, with the names of their servers, or of some of many."""
    step = -(-topology.num_servers // MOST_TICKS)
    shown = np.arange(0, topology.num_servers, step)
    names = server_names(topology)
    middle = topology.server_first_gpu[shown] + topology.gpus_per_server[shown] / 2
    return {
        "tickvals": numbers(middle), "ticktext": [label(names[at]) for at in shown.tolist()],
        "range": [topology.num_gpus, 0], "title": {"text": "server"}, "zeroline": False,
        "showgrid": False,
    }  # fmt: skip


def _server_lines(topology: Topology) -> list[dict[str, Any]]:
    """Lines between servers, thicker between racks; between racks only where there are many."""
    lines = []
    rack = topology.server_rack
    every = topology.num_servers <= 2 * MOST_TICKS
    for server in range(1, topology.num_servers):
        new_rack = rack[server] != rack[server - 1]
        if new_rack or every:
            at = int(topology.server_first_gpu[server])
            lines.append({
                "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at,
                "layer": "below", "line": {"color": AWAY, "width": 1.6 if new_rack else 0.5},
            })  # fmt: skip
    return lines


def _busy_servers(run: Run, why: str) -> Figure:
    """The share of busy GPUs of every server, or of neighbouring ones, in bins of time."""
    topology = run.topology
    start_s, end_s = span_s(run)
    unit = axis_unit_for(end_s - start_s)
    use = busy_frac_by_server(run, rows=USE_ROWS, bins=USE_BINS)
    rows = len(use)
    row_of_server = np.arange(topology.num_servers) * rows // topology.num_servers
    firsts = np.searchsorted(row_of_server, np.arange(rows))
    names = [label(server_names(topology)[at]) for at in firsts.tolist()]
    step = -(-rows // MOST_TICKS)
    width = (end_s - start_s) / USE_BINS / unit.length_s or 1.0
    data = [{
        "type": "heatmap", "z": _percents(use), "x0": width / 2, "dx": width, "y0": 0, "dy": 1,
        "zmin": 0, "zmax": 100, "colorbar": {"ticksuffix": " %", "thickness": 12},
        "hovertemplate": f"%{{x:.4g}} {unit.name}<br>%{{z}} % busy<extra></extra>",
    }]  # fmt: skip
    layout = {
        "xaxis": _time_axis(unit),
        "yaxis": {
            "tickvals": list(range(0, rows, step)), "ticktext": names[::step],
            "range": [rows - 0.5, -0.5], "title": {"text": "server"},
        },
    }  # fmt: skip
    apiece = "each server" if rows == topology.num_servers else "neighbouring servers together"
    note = (
        f"{why}, so this shows no single job: the share of busy GPUs of {apiece} "
        f"({rows} rows for {topology.num_servers} servers), each the mean of one of {USE_BINS} "
        "bins of time. perfetto=true and log_decisions=true write every job."
    )
    height_px = int(np.clip(140 + 14 * rows, LEAST_PX, MOST_PX))
    return Figure("Use by server", data, layout, note, height_px, wide=True)


def tree_figure(run: Run) -> Figure:
    """The tree of the cluster, a line a rack and a cell a server, with a slider over time."""
    topology = run.topology
    start_s, end_s = span_s(run)
    unit = axis_unit_for(end_s - start_s)
    lines, by_rack = _lines(topology)
    frames, told = _frames(run, lines)
    edges = np.linspace(0.0, (end_s - start_s) / unit.length_s, MOMENTS + 1).tolist()
    moments = [f"{low:.3g} to {high:.3g} {unit.name}" for low, high in pairwise(edges)]
    data = [{
        "type": "heatmap", "z": frames[0], "text": told, "zmin": 0, "zmax": 100, "xgap": 2,
        "ygap": 2, "hoverongaps": False, "colorbar": {"ticksuffix": " %", "thickness": 12},
        "hovertemplate": "%{text}<br>%{z} % busy<extra></extra>",
    }]  # fmt: skip
    named = [(at, name) for at, (name, _) in enumerate(lines) if name]
    layout = {
        "xaxis": {"visible": False}, "margin": {"l": 58, "r": 14, "t": 8, "b": 8},
        "yaxis": {
            "tickvals": [at for at, _ in named], "ticktext": [name for _, name in named],
            "range": [len(lines) - 0.5, -0.5], "showgrid": False, "zeroline": False,
        },
    }  # fmt: skip
    cell = "a rack, its servers' mean" if by_rack else "a server"
    note = (
        f"A cell is {cell}; its colour is the share of busy GPUs, the mean over one of {MOMENTS} "
        "equal stretches of the run, at first the busiest. Empty: no server, or away all that time."
    )
    height_px = int(np.clip(30 + 32 * len(lines), 110, MOST_PX))
    use = [sum(value or 0 for row in frame for value in row) for frame in frames]
    slider = Slider(moments, frames, start=use.index(max(use)))
    return Figure("The cluster over time", data, layout, note, height_px, True, slider)


def _lines(topology: Topology) -> tuple[list[tuple[str, list[IntArray]]], bool]:
    """Name and cells (servers each) of every line; whether a cell is a rack."""
    racks = [np.flatnonzero(topology.server_rack == rack) for rack in range(topology.num_racks)]
    if topology.num_servers > MOST_CELLS:
        starts = range(0, len(racks), RACKS_A_LINE)
        return [(f"racks from {at}", racks[at : at + RACKS_A_LINE]) for at in starts], True
    found = []
    for rack, servers in enumerate(racks):
        cells = np.split(servers, len(servers)) if len(servers) else []
        for at in range(0, len(cells), LINE_LENGTH):
            found.append((f"rack {rack}" if at == 0 else "", cells[at : at + LINE_LENGTH]))
    return found, False


def _frames(
    run: Run, lines: list[tuple[str, list[IntArray]]]
) -> tuple[list[list[list[int | None]]], list[list[str]]]:
    """(T, lines, cells) percents, and (lines, cells) what each cell is called."""
    topology = run.topology
    gpus = topology.gpus_per_server
    busy = busy_frac_by_server(run, rows=topology.num_servers, bins=MOMENTS)
    down = down_frac_by_server(run, rows=topology.num_servers, bins=MOMENTS)
    names = server_names(topology)
    longest = max(len(cells) for _, cells in lines)
    values = np.full((MOMENTS, len(lines), longest), np.nan)
    told = [[""] * longest for _ in lines]
    for row, (_, cells) in enumerate(lines):
        for column, servers in enumerate(cells):
            share = gpus[servers] / gpus[servers].sum()
            mean: FloatArray = share @ busy[servers]
            away = share @ down[servers] >= 1.0 - 1e-9
            values[:, row, column] = np.where(away, np.nan, mean)
            rack = int(topology.server_rack[servers[0]])
            single = f"server {label(names[servers[0]])}, {gpus[servers[0]]} GPUs"
            words = single if len(servers) == 1 else f"{len(servers)} servers"
            told[row][column] = f"rack {rack}: {words}"
    return [_percents(frame) for frame in values], told


def _percents(share: FloatArray) -> list[list[int | None]]:
    """(rows, columns) whole percents; None for NaN."""
    return [
        [None if math.isnan(value) else round(value * PERCENT) for value in row]
        for row in share.tolist()
    ]
