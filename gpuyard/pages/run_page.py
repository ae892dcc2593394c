"""The page of one run: what `simulate` leaves."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from gpuyard.pages.gantt import gantt_figures, span_text
from gpuyard.pages.page import Cell, Figure, Page, Slider, Table, facts_of, label, percents
from gpuyard.pages.sections import jct_figure, metrics_table, number_cell, use_figure
from sim.arrays import FloatArray, IntArray
from sim.errors import amount
from sim.files import physics_words
from sim.report.gpu_use import frac_by_server
from sim.report.job_times import counted, jct_s
from sim.report.run_folder import TIMELINE_BINS, Record
from sim.report.run_tables import server_names
from sim.report.summary import LEFT_KEYS
from sim.report.timeline import down_changes, gpu_changes, span_s, timeline_of
from sim.report.waits import MOST_KINDS, NO_ROOM, waits_of
from sim.run import Run
from sim.times import HOUR_S, axis_unit_for
from sim.topology.topology import Topology

TILE_TIMES = {
    "jct_mean_s": "mean JCT", "jct_p50_s": "median JCT", "jct_p99_s": "99th percentile of JCT",
    "queue_delay_mean_s": "mean queueing delay", "makespan_s": "makespan",
}  # fmt: skip
PERCENT = 100.0


def run_page(
    run: Run,
    metrics: Mapping[str, float | int],
    record: Record,
    *,
    more: Sequence[Table | Figure] = (),
) -> Page:
    """The page of a finished run, as a value.

    `more` are sections about the jobs, such as why they waited; they follow the Gantt chart.
    """
    labels, topology = record.labels, run.topology
    workload = "" if labels is None else f" on {labels.workload}"
    name = run.scheduler if labels is None else labels.scheduler
    whose = {name: name}
    times_s = jct_s(run)[counted(run)]
    physics = () if labels is None else physics_words(labels.physics, labels.load)
    found = [
        jct_figure({name: times_s}, whose),
        use_figure({name: timeline_of(run, bins=TIMELINE_BINS)}, whose),
        *run_views(run, more=more),
        metrics_table({**metrics, "decides": run.decides}),
    ]
    return Page(
        title=f"{name}{workload}",
        subtitle=(
            f"{topology.name}: {amount(topology.num_gpus, 'GPU')} in "
            f"{amount(topology.num_servers, 'server')} in {amount(topology.num_racks, 'rack')}; "
            f"{amount(len(run.jobs), 'job')}"
        ),
        tiles=_tiles(metrics),
        facts=facts_of(record),
        assumed=(*record.assumed, *physics),
        sections=tuple(section for section in found if section is not None),
    )


def run_views(run: Run, *, more: Sequence[Table | Figure] = ()) -> list[Table | Figure]:
    """Who was where when, why jobs waited, `more` on that, and the tree over time."""
    found = [*gantt_figures(run), waits_table(run), *more, tree_figure(run)]
    return [section for section in found if section is not None]


def _tiles(metrics: Mapping[str, float | int]) -> tuple[tuple[str, str], ...]:
    tiles = [("jobs finished", f"{metrics['jobs_finished']:,}")]
    for key in LEFT_KEYS:
        if metrics.get(key, 0):
            tiles.append((key.replace("_", " "), f"{metrics[key]:,}"))
    for key, name in TILE_TIMES.items():
        tiles.append((name, _time(float(metrics[key]))))
    use = float(metrics["gpu_util_frac"])
    return (*tiles, ("GPU use", "-" if math.isnan(use) else f"{use * PERCENT:.1f} %"))


def _time(time_s: float) -> str:
    if math.isnan(time_s):
        return "-"
    unit = axis_unit_for(time_s)
    value = time_s / unit.length_s
    return f"{value:,.0f} {unit.name}" if value >= 1000.0 else f"{value:.3g} {unit.name}"  # noqa: PLR2004


NOTE_OF_WAITS = (
    "Shares of the time that jobs wait. Too few free: fewer GPUs were free in the cluster than the "
    "job asks for.{no_room} Held back: enough were free in its partition, and others came first, "
    "or they were scattered or left for a better place; explain=JOB says which."
)
NOTE_OF_ROOM = (
    f" N{NO_ROOM[1:]}: enough were free, on servers without room for its workers (where jobs ask "
    f"for over {MOST_KINDS} different things, cores and memory are rounded to powers of two)."
)


def waits_table(run: Run) -> Table | None:
    """What jobs waited for, by size of their gangs; None if nobody waited."""
    waits, several = waits_of(run), int(run.partition_of_server.max()) > 0
    causes = {"too few free": waits.too_few_s}
    if waits.no_room_s.any():
        causes[NO_ROOM] = waits.no_room_s
    causes["held back"] = waits.held_back_s
    if several:
        causes["free in other partitions only"] = waits.elsewhere_s
    total_s = waits.too_few_s + waits.elsewhere_s + waits.no_room_s + waits.held_back_s
    if not total_s.any():
        return None
    power = np.ceil(np.log2(run.jobs.num_gpus[waits.job])).astype(np.int64)
    groups = [(_gangs(each), power == each) for each in np.unique(power).tolist()]
    rows = []
    for name, mine in [*groups, ("all", np.ones(len(power), dtype=np.bool_))]:
        sum_s = float(total_s[mine].sum())
        parts = [float(part[mine].sum()) for part in causes.values()]
        shares = [part / sum_s if sum_s else math.nan for part in parts]
        jobs, hours = len(np.unique(waits.job[mine & (total_s > 0)])), sum_s / HOUR_S
        rows.append((
            Cell(name), Cell(f"{jobs:,}", jobs), number_cell(hours),
            *(Cell("-") if math.isnan(x) else Cell(f"{x * PERCENT:.0f} %", x) for x in shares),
        ))  # fmt: skip
    note = NOTE_OF_WAITS.format(no_room=NOTE_OF_ROOM if NO_ROOM in causes else "")
    headers = ("GPUs asked for", "jobs that waited", "hours in all", *causes)
    return Table("Why jobs waited", headers, tuple(rows), note)


def _gangs(power: int) -> str:
    """The sizes that round up to a power of two."""
    least, most = 2**power // 2 + 1, 2**power
    return f"{most}" if least >= most else f"{least} to {most}"


MOST_CELLS = 2500  # servers of the heat map; of more, a cell is a rack
LINE_LENGTH = 64  # servers of a rack that stand in one line
RACKS_A_LINE = 40
MOMENTS = 60  # of the slider
LEAST_PX, MOST_PX = 110, 900


def tree_figure(run: Run) -> Figure:
    """The tree of the cluster, a line a rack and a cell a server, with a slider over time."""
    topology = run.topology
    start_s, end_s = span_s(run)
    unit = axis_unit_for(end_s - start_s)
    lines, by_rack = _lines(topology)
    frames, hovers = _frames(run, lines)
    edges_s = np.linspace(0.0, end_s - start_s, MOMENTS + 1).tolist()
    moments = [span_text(low_s, high_s, unit) for low_s, high_s in pairwise(edges_s)]
    data = [{
        "type": "heatmap", "z": frames[0], "text": hovers, "zmin": 0, "zmax": 100, "xgap": 2,
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
    height_px = int(np.clip(30 + 32 * len(lines), LEAST_PX, MOST_PX))
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
    busy, down = (
        frac_by_server(run, changes, rows=topology.num_servers, bins=MOMENTS)
        for changes in (gpu_changes(run.log), down_changes(run.log))
    )
    names = server_names(topology)
    longest = max(len(cells) for _, cells in lines)
    values = np.full((MOMENTS, len(lines), longest), np.nan)
    hovers = [[""] * longest for _ in lines]
    for row, (_, cells) in enumerate(lines):
        for column, servers in enumerate(cells):
            share = gpus[servers] / gpus[servers].sum()
            mean: FloatArray = share @ busy[servers]
            away = share @ down[servers] >= 1.0 - 1e-9
            values[:, row, column] = np.where(away, np.nan, mean)
            rack = int(topology.server_rack[servers[0]])
            single = f"server {label(names[servers[0]])}, {amount(gpus[servers[0]], 'GPU')}"
            words = single if len(servers) == 1 else f"{len(servers)} servers"
            hovers[row][column] = f"rack {rack}: {words}"
    return [percents(frame) for frame in values], hovers
