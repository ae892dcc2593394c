"""The page of one run: what `simulate` leaves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpuyard.pages.asked import facts_of
from gpuyard.pages.figures import jct_figure, looks, use_figure
from gpuyard.pages.gantt import gantt_figures
from gpuyard.pages.page import Figure, Page, Table, write_page
from gpuyard.pages.tables import metrics_table
from gpuyard.pages.tree import tree_figure
from sim.metrics.job_times import counted, jct_s
from sim.metrics.timeline import timeline_of
from sim.report.labels import Labels, axis_unit_for
from sim.report.run_folder import TIMELINE_BINS, Record
from sim.run import Run

TILE_TIMES = {
    "jct_mean_s": "mean JCT", "jct_p50_s": "median JCT", "jct_p99_s": "99th percentile of JCT",
    "queue_delay_mean_s": "mean queueing delay", "makespan_s": "makespan",
}  # fmt: skip
PERCENT = 100.0


def write_run_page(
    folder: Path,
    run: Run,
    metrics: Mapping[str, float | int],
    record: Record,
    *,
    more: Sequence[Table | Figure] = (),
) -> Path:
    """Write report.html beside the files of a run, all of which are there.

    Args:
        folder: of the run.
        run: finished.
        metrics: of the run.
        record: with labels.
        more: sections about the jobs, such as why they waited; they follow the Gantt chart.
    """
    page = run_page(run, metrics, record, more=more)
    return write_page(folder, page)


def run_page(
    run: Run,
    metrics: Mapping[str, float | int],
    record: Record,
    *,
    more: Sequence[Table | Figure] = (),
) -> Page:
    """The page of `write_run_page`, as a value."""
    labels, topology = record.labels, run.topology
    workload = "" if labels is None else f" on {labels.workload}"
    name = run.scheduler if labels is None else labels.scheduler
    look = looks([name])
    times_s = jct_s(run)[counted(run)]
    found = [
        jct_figure({name: times_s}, look),
        use_figure({name: timeline_of(run, bins=TIMELINE_BINS)}, look),
        *gantt_figures(run),
        *more,
        tree_figure(run),
        metrics_table({**metrics, "decides": run.decides}),
    ]
    return Page(
        title=f"{name}{workload}",
        subtitle=(
            f"{topology.name}: {_count(topology.num_gpus, 'GPU')} in "
            f"{_count(topology.num_servers, 'server')} in {_count(topology.num_racks, 'rack')}; "
            f"{_count(len(run.jobs), 'job')}"
        ),
        tiles=_tiles(metrics),
        facts=facts_of(record),
        assumed=(*record.assumed, *_physics(labels)),
        sections=tuple(section for section in found if section is not None),
    )


def _tiles(metrics: Mapping[str, float | int]) -> tuple[tuple[str, str], ...]:
    tiles = [("jobs finished", f"{metrics['jobs_finished']:,}")]
    left = metrics.get("jobs_unfinished", 0)
    if left:
        tiles.append(("jobs unfinished", f"{left:,}"))
    for key, name in TILE_TIMES.items():
        tiles.append((name, _time(float(metrics[key]))))
    use = float(metrics["gpu_util_frac"])
    return (*tiles, ("GPU use", "-" if math.isnan(use) else f"{use * PERCENT:.1f} %"))


def _physics(labels: Labels | None) -> Iterator[str]:
    """What the labels tell of the run's physics and load."""
    if labels is not None:
        off = labels.physics == "off"
        yield "physics off" if off else f"physics on ({labels.physics})"
        load = labels.load
        yield "load as it comes" if load is None else f"times stretched to load {load:g}"


def _time(time_s: float) -> str:
    if math.isnan(time_s):
        return "-"
    unit = axis_unit_for(time_s)
    value = time_s / unit.length_s
    return f"{value:,.0f} {unit.name}" if value >= 1000.0 else f"{value:.3g} {unit.name}"  # noqa: PLR2004


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
