"""Compare traces: `python scripts/compare_traces.py workload@real=csv real.path=FILE`."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from gpuyard.launch.build import SEED, build, check_plain, section
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import reworded, table_console
from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.files import forget, write_atomically
from sim.jobs import JobTable, never_ran
from sim.physics.shipped_files import ShippedProfiles
from sim.report.figures import COLOURS, GREY, heading, new_figure, save_png, tidy
from sim.report.table_text import RichTable
from sim.traces.estimators import NoEstimator
from sim.traces.likeness import (
    ALIKE_LAGS,
    COUNT_LAGS_H,
    DURATION,
    FEATURE_GAP,
    GANG,
    GANG_BY_WORK,
    HOURLY,
    SIZE_CLASSES,
    Distance,
    JobSample,
    Sample,
    alike_shares,
    best_turn,
    count_correlations,
    duration_of,
    likeness,
    samples,
    week_shares,
)
from sim.traces.prepare import picked_jobs
from sim.traces.setting import Setting
from sim.traces.workload import TraceWorkload

if TYPE_CHECKING:
    from matplotlib.axes import Axes


log = logging.getLogger(__name__)

COLUMNS = (
    "feature", "measure", "distance", "floor", "over_floor", "ln_shift", "ln_shift_floor", "first",
    "second",
)  # fmt: skip
HEADERS = (
    "feature", "real", "generated", "measure", "distance", "floor", "x floor", "ln shift", "floor",
)  # fmt: skip
NOTE = (
    "floor: distance between the first and the second half of the real trace's time span; up to "
    "1 x floor the generated trace is no further from the real one than its halves are from each "
    "other. real, generated: (weighted) medians, shares, or means of the curve. ln shift: "
    "Wasserstein distance of logarithms, 0.1 is about 10 %."
)


def likeness_cells(distance: Distance) -> tuple[str, ...]:
    """The cells of one row, under HEADERS."""
    return (
        distance.feature,
        _short(distance.first),
        _short(distance.second),
        distance.measure,
        _short(distance.distance),
        _short(distance.floor),
        "-" if math.isnan(distance.over_floor) else f"{distance.over_floor:.2f}",
        _short(distance.ln_shift),
        _short(distance.ln_shift_floor),
    )


def _short(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": COLOURS[0]},
    {"color": COLOURS[1], "linestyle": "--"},
)
_BLOCK_H = 4  # single hours flicker too much to be told apart
_MOST_STEPS = 2000  # of a curve: no eye sees more
_CDFS = (
    (FEATURE_GAP, "Gaps between jobs", "s"),
    (HOURLY, "Jobs in an hour", "jobs"),
    (GANG, "Gang sizes, by jobs", "GPUs"),
    (GANG_BY_WORK, "Gang sizes, by GPU-time", "GPUs"),
    (DURATION, "Durations", "s"),
)


def trace_page(first: JobSample, second: JobSample, *, names: tuple[str, str], path: Path) -> None:
    """Draw one page: distributions, the week, jobs that come back, and correlation of the hours.

    Args:
        first: drawn in blue.
        second: drawn in orange, dashed.
        names: of the two.
        path: PNG to write.
    """
    figure = new_figure(12.5, 10.5)
    panels = figure.subplots(3, 3).ravel()
    ours, theirs = samples(first), samples(second)
    for axes, (feature, title, unit) in zip(panels, _CDFS, strict=False):
        _cdfs(axes, (ours[feature], theirs[feature]), title, unit)
    _by_class(panels[5], ours, theirs)
    _week(panels[6], first, second)
    _curves(panels[7], ALIKE_LAGS, (alike_shares(first), alike_shares(second)))
    panels[7].set_xscale("log")
    panels[7].set_xlabel("jobs apart")
    panels[7].set_ylim(bottom=0)
    heading(panels[7], "Alike: same gang, duration within 20 %")
    _curves(panels[8], COUNT_LAGS_H, (count_correlations(first), count_correlations(second)))
    panels[8].set_xlabel("hours apart")
    panels[8].axhline(0, color=GREY, linewidth=0.8)
    heading(panels[8], "Autocorrelation of hourly jobs")
    lines = panels[0].get_lines()
    figure.legend(lines, names, loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    for axes in panels:
        tidy(axes, grid="both")
    save_png(figure, path)


def _cdfs(axes: Axes, pair: Sequence[Sample], title: str, unit: str) -> None:
    for sample, look in zip(pair, _LOOKS, strict=False):
        axes.step(*_steps(sample), where="post", linewidth=1.8, **look)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.01)
    axes.set_xlabel(f"{unit} (log scale)")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    heading(axes, title)


def _steps(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Values (below 1 drawn at 1) and the share of the weight up to each."""
    order = np.argsort(sample.values, kind="stable")
    share = np.cumsum(sample.weights[order])
    kept = np.unique(np.linspace(0, len(order) - 1, _MOST_STEPS).astype(np.int64))
    return np.maximum(sample.values[order], 1.0)[kept], (share / share[-1])[kept]


def _by_class(axes: Axes, ours: dict[str, Sample], theirs: dict[str, Sample]) -> None:
    """Durations of each size class; one colour a class, dashed the second trace."""
    for place, name in enumerate(SIZE_CLASSES):
        for found, stroke in ((ours, "-"), (theirs, "--")):
            sample = found.get(duration_of(name))
            if sample is not None:
                label = name if stroke == "-" else None
                x, y = _steps(sample)
                axes.step(x, y, where="post", color=COLOURS[place + 2], linestyle=stroke,
                          linewidth=1.3, label=label)  # fmt: skip
    _cdfs(axes, (), "Durations by gang size", "s")
    axes.legend(fontsize=8, frameon=False, loc="upper left")


def _week(axes: Axes, first: JobSample, second: JobSample) -> None:
    """Share of the jobs in the blocks of a week, the second turned to fit best."""
    ours, theirs = week_shares(first), week_shares(second)
    theirs = np.roll(theirs, best_turn(ours, theirs))
    for shares, look in zip((ours, theirs), _LOOKS, strict=True):
        blocks = shares.reshape(-1, _BLOCK_H).sum(axis=1)
        edges = np.arange(len(blocks) + 1) * _BLOCK_H / 24
        axes.stairs(blocks, edges, linewidth=1.5, **look)
    axes.set_xlim(0, 7)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.1%}")
    axes.set_xlabel("days from the first job, modulo a week")
    heading(axes, f"The week, share of the jobs in {_BLOCK_H} h")


def _curves(axes: Axes, lags: tuple[int, ...], pair: tuple[FloatArray, FloatArray]) -> None:
    for values, look in zip(pair, _LOOKS, strict=True):
        axes.plot(lags, values, marker="o", markersize=3, linewidth=1.5, **look)


RULES = {**SEED, "draws": (True, 1)}


@program("compare_traces")
def main(cfg: DictConfig) -> None:
    """Read or generate both sides, measure, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    names = config["real"]["name"], config["generated"]["name"]
    real = JobSample.of(jobs_of(config, "real", part=config["part"], seed=config["seed"]), names[0])
    draws = _draws(config, len(real))
    launch.begin()
    distances = likeness(real, draws)
    about = {
        "real": names[0], "generated": names[1], "jobs": len(real), "draws": len(draws),
        "part": config["part"], "seed": config["seed"],
    }  # fmt: skip
    frame = pd.DataFrame([asdict(each) | {"over_floor": each.over_floor} for each in distances])
    table = frame[list(COLUMNS)].assign(**about).to_csv(index=False)
    write_atomically(launch.folder / "likeness.csv", table.encode())
    forget(launch.folder, ("likeness.json",))  # that earlier versions wrote
    trace_page(real, draws[0], names=names, path=launch.folder / "likeness.png")
    table_console().print(_table(distances, names), NOTE)
    print(f"results in {launch.folder}")


def _draws(config: Mapping[str, Any], jobs: int) -> list[JobSample]:
    """The other side: one sample of a file, several of a generator."""
    section = config["generated"]
    generated = is_generated(config, "generated")
    if generated and section["num_jobs"] is None:
        config = {**config, "generated": {**section, "num_jobs": jobs}}
    seeds = range(config["seed"], config["seed"] + (config["draws"] if generated else 1))
    tables = (jobs_of(config, "generated", part=None, seed=seed) for seed in seeds)
    return [JobSample.of(table, section["name"]) for table in tables]


def _table(distances: Sequence[Distance], names: tuple[str, str]) -> RichTable:
    rows = tuple(map(likeness_cells, distances))
    far = [number for number, each in enumerate(distances) if each.over_floor > 1]
    return RichTable(HEADERS, f"{names[0]} and {names[1]}", rows, texts=1, bold=far)


NO_LIMIT = 1 << 60  # GPUs: no gang is too large to be compared
PARTS = ("train", "validation", "test")


def jobs_of(config: Mapping[str, Any], key: str, *, part: str | None, seed: int) -> JobTable:
    """The jobs of `jobs_and_clock`; messages on keys of a workload name its section."""
    known = "|".join(map(re.escape, config[key]))
    with reworded(partial(re.sub, rf"\bworkload\.({known})\b", rf"{key}.\1")):
        return jobs_and_clock(config, key, part=part, seed=seed)[0]


def jobs_and_clock(
    config: Mapping[str, Any], key: str, *, part: str | None, seed: int
) -> tuple[JobTable, datetime | None]:
    """The jobs of the workload in section `key`, or of a part, and the first one's wall clock.

    Those that were given up before they began are left out: their 0 s are no durations. The clock
    is None where the file has no dates.

    Raises:
        ConfigError: the part is unknown, or a key of the section needs a cluster.
        TraceError: the file cannot be read.
    """
    if part is not None and part not in PARTS:
        raise ConfigError(f"part is {part!r}; it must be null or one of {', '.join(PARTS)}")
    for name, unset in (("load", None), ("drop_too_large", False)):
        if (value := config[key].get(name)) not in (unset, None):
            raise ConfigError(
                f"{key}.{name} is {value!r}, but there is no cluster here that it could be about; "
                f"leave it {'null' if unset is None else 'false'}"
            )
    setting = Setting(
        gpus=NO_LIMIT, partitions=1, skew=0.0, catalogue=ShippedProfiles(), estimator=NoEstimator()
    )
    workload = build(config, key)
    jobs: JobTable
    if part is None:
        jobs = workload.whole(setting=setting, seed=seed)
    else:
        jobs = workload.window(part=part, index=0, setting=setting, seed=seed)
    jobs = _that_ran(jobs)
    if not isinstance(workload, TraceWorkload):
        return jobs, None
    trace = workload.trace(part=part, setting=setting)
    first = np.flatnonzero(trace.job_id == jobs.job_id[0])  # of a window somewhere in the part
    if trace.zero is None or not len(first):
        return jobs, None
    return jobs, trace.zero + timedelta(seconds=float(trace.submit_s[first[0]]))


def _that_ran(jobs: JobTable) -> JobTable:
    """Without those that never began; TraceError: nothing is left."""
    if jobs.fates is None:
        return jobs
    idle = never_ran(jobs.duration_s, jobs.fates.withdraw_s)
    if not idle.any():
        return jobs
    if idle.all():
        raise TraceError("none of these jobs ever began, so that there are no durations")
    log.info("%d of %d jobs are left out: they never began", int(idle.sum()), len(jobs))
    return picked_jobs(jobs, np.flatnonzero(~idle))


def is_generated(config: Mapping[str, Any], key: str) -> bool:
    """Whether section `key` describes generated jobs, another draw for each seed."""
    return "spec" in section(config, key)
