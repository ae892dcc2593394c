"""FIFO beside the shipped agents, the same hour of the same cluster: docs/figures/beside.png.

python benchmarks/beside.py
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import gpuyard
from sim.report.figure_gpus import draw_bars
from sim.report.gpu_use import tenancy_of
from sim.report.timeline import queue_over_time, utilisation_over_time
from sim.run import Run
from sim.times import MINUTES

PATH = Path(__file__).resolve().parents[1] / "docs" / "figures" / "beside.png"
FROM_H, HOUR_S = 88.75, 3600.0
SHOWN_S = (FROM_H * HOUR_S, (FROM_H + 1.0) * HOUR_S)
JOBS = ["workload.num_jobs=1200", "workload.load=0.9"]


def main() -> None:
    """Play both and draw."""
    mpl.use("Agg")
    runs: dict[str, Any] = {
        "First in, first out": "fifo",
        "GPUYard's agents": gpuyard.load_policy("pretrained"),
    }
    played = {
        name: gpuyard.simulate(scheduler=each, agents=4, overrides=JOBS).raw
        for name, each in runs.items()
    }
    figure = Figure(figsize=(11.0, 6.2), dpi=110, layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=[3.2, 1.0])
    for at, (name, run) in enumerate(played.items()):
        _gpus(panels[0, at], run)
        _queue(panels[1, at], run)
        panels[0, at].set_title(f"{name}\n{_in_words(run)}", fontsize=11)
    panels[0, 0].set_ylabel("128 GPUs; a colour is a job")
    panels[1, 0].set_ylabel("jobs waiting")
    figure.savefig(PATH, pil_kwargs={"optimize": True})


def _in_words(run: Run) -> str:
    busy = utilisation_over_time(run).mean(*SHOWN_S)
    ended = np.count_nonzero((run.finish_s >= SHOWN_S[0]) & (run.finish_s < SHOWN_S[1]))
    return f"{100.0 * busy:.0f} % of the GPUs busy, jobs finished: {ended}"


def _gpus(axes: Axes, run: Run) -> None:
    bars = tenancy_of(run, np.arange(run.topology.num_gpus), SHOWN_S)
    axes.set_ylim(run.topology.num_gpus, 0)
    draw_bars(axes, bars, SHOWN_S, SHOWN_S[0], MINUTES)
    axes.set_yticks([])


def _queue(axes: Axes, run: Run) -> None:
    time_s = np.linspace(*SHOWN_S, 600)
    waiting = queue_over_time(run).at(time_s)
    axes.fill_between(
        (time_s - SHOWN_S[0]) / MINUTES.length_s, waiting, color="#c0504d", linewidth=0
    )
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("minutes")


if __name__ == "__main__":
    main()
