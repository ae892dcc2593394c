"""Figure of a page: who was on which server when; of large runs the use of servers as well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from gpuyard.pages.page import Figure, label, numbers, percents
from sim.arrays import FloatArray, IntArray
from sim.report.figures import JOB_COLOURS
from sim.report.gpu_use import frac_by_server, spells, tenancy_of
from sim.report.run_tables import server_names
from sim.report.timeline import down_changes, gpu_changes, gpu_lists, queue_over_time, span_s
from sim.run import Kind, Run
from sim.times import DAYS, HOURS, MINUTES, SECONDS, TimeUnit, axis_unit_for
from sim.topology.topology import Topology

MOST_BARS = 2500  # a browser draws them in a second; of more jobs, shares of servers are shown
PART_STARTS = (800, 400, 200, 100)  # of such a run a part with so many starts has bars, if it can
USE_ROWS, USE_BINS = 200, 400  # of those shares
MOST_TICKS = 40  # servers that are named on the axis
BAR_TEXT, AWAY = "#20262E", "#8A94A0"
LEAST_PX, MOST_PX = 260, 900
UNITS = (DAYS, HOURS, MINUTES, SECONDS)


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
    held: IntArray  # (N,) GPUs that the job has meanwhile, on all servers


@dataclass(frozen=True)
class Rows:
    """The rows of the figure, one a GPU: those of some servers, from top to bottom."""

    servers: IntArray  # (s,) ascending
    first: IntArray  # (S,) row of each server's first GPU, where it is one of these
    count: int

    @classmethod
    def of(cls, topology: Topology, bars: Bars) -> Self:
        """All servers; where a GPU would be lower than a pixel those that have bars."""
        servers = np.arange(topology.num_servers)
        if topology.num_gpus > MOST_PX and len(bars.job) > 0:
            servers = np.unique(topology.gpu_server[bars.first_gpu])
        ends = np.cumsum(topology.gpus_per_server[servers])
        first = np.zeros(topology.num_servers, dtype=np.int64)
        first[servers[1:]] = ends[:-1]
        return cls(servers, first, int(ends[-1]))


def gantt_figures(run: Run) -> list[Figure]:
    """A bar a job and server; of a run with too many of them shares of servers and a part."""
    starts = int(np.count_nonzero(run.log.kind == Kind.START))
    if starts > MOST_BARS:
        why = f"{starts:,} starts of jobs"
        return [_busy_servers(run, why), *_part(run)]
    bars = bars_of(run)
    if len(bars.job) > MOST_BARS:
        return [_busy_servers(run, f"{len(bars.job):,} bars"), *_part(run)]
    return [_gantt(run, bars, span_s(run))]


def _gantt(run: Run, bars: Bars, shown_s: tuple[float, float]) -> Figure:
    """The bars, and the axis over the time shown."""
    start_s, end_s = span_s(run)
    unit, rows = axis_unit_for(end_s - start_s), Rows.of(run.topology, bars)
    low, high = ((time_s - start_s) / unit.length_s for time_s in shown_s)
    layout = {
        "xaxis": _time_axis(unit) | {"range": [low, high if high > low else low + 1.0]},
        "yaxis": _server_axis(run.topology, rows),
        "shapes": _server_lines(run.topology, rows),
        "uniformtext": {"mode": "hide", "minsize": 9},
        "barmode": "overlay", "bargap": 0, "hovermode": "closest", "showlegend": False,
    }  # fmt: skip
    note = (
        "A bar is a job on GPUs of one server, as high as it has GPUs there; it carries the job's "
        "id where there is room."
    )
    idle = run.topology.num_servers - len(rows.servers)
    if idle > 0:
        note += f" Servers without a job are left out: {idle:,} of {len(rows.first):,}."
    data = [*_away(run, rows, unit), _bar_trace(run, bars, rows, unit)]
    if len(data) > 1:
        note += " Grey: the server was away."
    height_px = int(np.clip(140 + 10 * rows.count, LEAST_PX, MOST_PX))
    return Figure("Jobs by server", data, layout, note, height_px, wide=True, zoom_told=True)


def _part(run: Run) -> list[Figure]:
    """The time around the longest queue, folded; none where even that has too many bars."""
    origin_s = span_s(run)[0]
    for starts in PART_STARTS:
        low_s, high_s = _around_longest_queue(run, starts)
        bars = bars_of(run, (low_s, high_s))
        inside = np.flatnonzero((bars.end_s > low_s) & (bars.start_s < high_s))
        if len(inside) <= MOST_BARS:
            few = Bars(**{name: column[inside] for name, column in vars(bars).items()})
            figure = _gantt(run, few, (low_s, high_s))
            unit = axis_unit_for(span_s(run)[1] - origin_s)
            span = span_text(low_s - origin_s, high_s - origin_s, unit)
            title = f"Jobs by server around the longest queue: {span}"
            note = f"A part of the run with {starts} starts of jobs. {figure.note}"
            return [replace(figure, title=title, note=note, opened=False)]
    return []


def _around_longest_queue(run: Run, starts: int) -> tuple[float, float]:
    """The time from one start to another, so many later; the longest queue is in its middle."""
    starts_s = run.log.time_s[run.log.kind == Kind.START]
    if len(starts_s) <= starts:
        return span_s(run)
    queue = queue_over_time(run)
    longest_s = float(queue.time_s[int(np.argmax(queue.value))])
    first = int(np.searchsorted(starts_s, longest_s)) - starts // 2
    first = min(max(first, 0), len(starts_s) - starts)
    return float(starts_s[first]), float(starts_s[first + starts - 1])


def bars_of(run: Run, between_s: tuple[float, float] | None = None) -> Bars:
    """Stretches of jobs, those on neighbouring GPUs of one server taken together.

    `between_s`: only of jobs that run at some time between; None: of all.
    """
    all_ = tenancy_of(run, np.arange(run.topology.num_gpus), between_s)
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
        held=np.diff(gpu_lists(run.log.gpus).first)[all_.start_event[kept]],
    )


def _bar_trace(run: Run, bars: Bars, rows: Rows, unit: TimeUnit) -> dict[str, Any]:
    origin_s, topology = span_s(run)[0], run.topology
    height, server = bars.gpus / bars.tenants, topology.gpu_server[bars.first_gpu]
    first = rows.first[server] + bars.first_gpu - topology.server_first_gpu[server]
    middle = first + bars.place * height + height / 2
    ids = [label(run.jobs.job_id[job]) for job in bars.job.tolist()]
    names = server_names(topology)
    hovers = [
        f"{gang} GPU{'s' if gang > 1 else ''} in all, {here} here on server {label(names[at])}"
        for gang, here, at in zip(
            bars.held.tolist(), bars.gpus.tolist(), server.tolist(), strict=True
        )
    ]
    length = (bars.end_s - bars.start_s) / unit.length_s
    base = (bars.start_s - origin_s) / unit.length_s
    ends_s = (bars.start_s - origin_s).tolist(), (bars.end_s - origin_s).tolist()
    spans = [span_text(*each, unit, parts=20) for each in zip(*ends_s, strict=True)]
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
                      for name, span, words in zip(ids, spans, hovers, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _away(run: Run, rows: Rows, unit: TimeUnit) -> list[dict[str, Any]]:
    """A trace of grey bars while servers are away; none where all stay."""
    start_s, end_s = span_s(run)
    first = run.topology.server_first_gpu[rows.servers]
    changes = down_changes(run.log)
    lead = np.isin(changes.gpu, first)  # one GPU speaks for all of a server
    found = spells(changes.of(lead), end_s)
    if not found:
        return []
    server = run.topology.gpu_server[np.array([gpu for gpu, _, _ in found])]
    size = run.topology.gpus_per_server[server]
    names = server_names(run.topology)
    return [{
        "type": "bar", "orientation": "h", "opacity": 0.45, "marker": {"color": AWAY},
        "base": numbers((low - start_s) / unit.length_s for _, low, _ in found),
        "x": numbers((high - low) / unit.length_s for _, low, high in found),
        "y": numbers(rows.first[server] + size / 2), "width": numbers(size),
        "hovertext": [f"server {label(names[at])} away" for at in server.tolist()],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip


def span_text(low_s: float, high_s: float, largest: TimeUnit, *, parts: int = 1) -> str:
    """A stretch of time as people write it, like `1 h 18 min to 1 h 44 min`.

    It is exact to the `parts`-th part of its length, or better.
    """
    exact_s = (high_s - low_s) / parts
    units = [each for each in UNITS if each.length_s <= largest.length_s]
    enough = (at for at, each in enumerate(units) if each.length_s <= exact_s)
    units = units[: next(enough, len(units) - 1) + 1]
    digits = 0 if exact_s >= 1.0 else min(3, math.ceil(-math.log10(max(exact_s, 1e-3))))
    low, high = (_amounts(time_s, units, digits) for time_s in (low_s, high_s))
    if len(low) == 1 and (low[0][0] == 0.0 or (len(high) == 1 and low[0][1] == high[0][1])):
        low = [(low[0][0], "")]  # the unit comes at the end
    first, last = (" ".join(f"{n:.6g} {name}".strip() for n, name in each) for each in (low, high))
    return f"{first} to {last}"


def _amounts(time_s: float, units: Sequence[TimeUnit], digits: int) -> list[tuple[float, str]]:
    """How many of each unit, those of which there is none left out."""
    *larger, smallest = units
    left_s = round(time_s / smallest.length_s, digits) * smallest.length_s
    found = []
    for unit in larger:
        count, left_s = divmod(left_s, unit.length_s)
        found.append((count, unit.name))
    found.append((round(left_s / smallest.length_s, digits), smallest.name))
    return [each for each in found if each[0]] or found[-1:]


def _time_axis(unit: TimeUnit) -> dict[str, Any]:
    return {
        "title": {"text": f"time since the first submission [{unit.name}]"},
        "rangemode": "tozero", "zeroline": False,
    }  # fmt: skip


def _server_axis(topology: Topology, rows: Rows) -> dict[str, Any]:
    """GPUs from top to bottom, with the names of their servers, or of some of many."""
    shown = rows.servers[:: -(-len(rows.servers) // MOST_TICKS)]
    names = server_names(topology)
    middle = rows.first[shown] + topology.gpus_per_server[shown] / 2
    return {
        "tickvals": numbers(middle), "ticktext": [label(names[at]) for at in shown.tolist()],
        "range": [rows.count, 0], "title": {"text": "server"}, "zeroline": False,
        "showgrid": False,
    }  # fmt: skip


def _server_lines(topology: Topology, rows: Rows) -> list[dict[str, Any]]:
    """Lines between servers, thicker between racks; between racks only where there are many."""
    lines = []
    rack = topology.server_rack
    every = len(rows.servers) <= 2 * MOST_TICKS
    for before, server in pairwise(rows.servers.tolist()):
        new_rack = rack[server] != rack[before]
        if new_rack or every:
            at = int(rows.first[server])
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
    use = frac_by_server(run, gpu_changes(run.log), rows=USE_ROWS, bins=USE_BINS)
    rows = len(use)
    row_of_server = np.arange(topology.num_servers) * rows // topology.num_servers
    firsts = np.searchsorted(row_of_server, np.arange(rows))
    names = [label(server_names(topology)[at]) for at in firsts.tolist()]
    step = -(-rows // MOST_TICKS)
    width = (end_s - start_s) / USE_BINS / unit.length_s or 1.0
    data = [{
        "type": "heatmap", "z": percents(use), "x0": width / 2, "dx": width, "y0": 0, "dy": 1,
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
        f"{why} are more than can be told apart, so this shows no single job: the share of busy "
        f"GPUs of {apiece} ({rows} rows for {topology.num_servers} servers), each the mean of one "
        f"of {USE_BINS} bins of time. perfetto=true and log_decisions=true write every job."
    )
    height_px = int(np.clip(140 + 14 * rows, LEAST_PX, MOST_PX))
    return Figure("Use by server", data, layout, note, height_px, wide=True)
