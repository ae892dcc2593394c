"""FIFO beside the shipped agents, the same hours of the same cluster: docs/figures/beside.png.

python benchmarks/beside.py
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import gpuyard
from sim.metrics.gpu_use import tenancy_of
from sim.metrics.timeline import timeline_of
from sim.report.comparison import HOURS
from sim.report.figure_gpus import draw_bars
from sim.run import Run

PATH = Path(__file__).resolve().parents[1] / "docs" / "figures" / "beside.png"
FROM_H, HOURS_SHOWN, HOUR_S = 72.0, 96.0, 3600.0
JOBS = ["workload.num_jobs=1200", "workload.load=0.9"]
BINS = 400


def main() -> None:
    """Play both and draw."""
    mpl.use("Agg")
    runs = {
        "First in, first out, four partitions": "fifo",
        "GPUYard's agents, the same jobs and GPUs": gpuyard.load_policy("pretrained"),
    }
    played = {
        name: gpuyard.simulate(scheduler=each, agents=4, overrides=JOBS)
        for name, each in runs.items()
    }
    figure = Figure(figsize=(11.0, 6.2), dpi=110, layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, height_ratios=[3.0, 1.0])
    most = max(float(timeline_of(run.raw, bins=BINS).queue_jobs.max()) for run in played.values())
    for at, (name, run) in enumerate(played.items()):
        _gpus(panels[0, at], run.raw)
        mean_h = run.metrics["jct_mean_s"] / HOUR_S
        panels[0, at].set_title(f"{name}\nmean job completion time {mean_h:.1f} h", fontsize=11)
        _queue(panels[1, at], run.raw, most)
    panels[0, 0].set_ylabel("128 GPUs; a colour is a job")
    panels[1, 0].set_ylabel("jobs waiting")
    figure.savefig(PATH, pil_kwargs={"optimize": True})


def _gpus(axes: Axes, run: Run) -> None:
    span_s = (FROM_H * HOUR_S, (FROM_H + HOURS_SHOWN) * HOUR_S)
    bars = tenancy_of(run, np.arange(run.topology.num_gpus), span_s)
    draw_bars(axes, bars, span_s, 0.0, HOURS)
    axes.set_ylim(run.topology.num_gpus, 0)
    axes.set_yticks([])


def _queue(axes: Axes, run: Run, most: float) -> None:
    timeline = timeline_of(run, bins=BINS)
    axes.fill_between(timeline.time_s / HOUR_S, timeline.queue_jobs, color="#c0504d", linewidth=0)
    axes.set_xlim(FROM_H, FROM_H + HOURS_SHOWN)
    axes.set_ylim(0.0, most)
    axes.set_xlabel("hours")


if __name__ == "__main__":
    main()
