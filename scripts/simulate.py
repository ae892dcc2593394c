"""Replay a trace: `python scripts/simulate.py workload=csv workload.path=FILE scheduler=sjf`."""

from startup import finish_startup  # first: it pauses the garbage collector

# isort: split
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import hydra
from assumptions import assumed_line, assumptions
from compiled_parts import load_numba_parts
from experiment import Experiment, composition_of, experiment_of, labels_of, warn_without_users
from launch import run_main, start
from launch_errors import ConfigError
from omegaconf import DictConfig
from outputs import check_outputs, drop_outputs, write_outputs
from progress import run_with_progress
from warm import warm_up

from sim.jobs import JobTable
from sim.metrics.summary import HEADLINE_KEYS, summarise
from sim.report.run_folder import write_run

log = logging.getLogger(__name__)

HOUR_S = 3600.0


@hydra.main(version_base=None, config_path="../conf", config_name="simulate")
def main(cfg: DictConfig) -> None:
    """Compose, simulate, write."""
    launch = start(cfg)
    config = launch.config
    drop_outputs(launch.folder)
    check_outputs(config)
    load_numba_parts()
    experiment = experiment_of(config)
    scheduler = composition_of(config, experiment.game.partitions)
    labels = labels_of(experiment, scheduler, window=config["window"], role=config["role"])
    jobs = _jobs(experiment, config["part"], config["window"])
    if config["part"] is not None:
        labels = replace(labels, stretch=experiment.stretch(config["part"], config["window"]))
    assumed = assumptions(config, experiment, labels.information)
    line = assumed_line(experiment, assumed)
    log.info("%s", line)
    warn_without_users(scheduler, jobs)
    simulator = experiment.game.simulator(jobs)
    why = simulator.python_decides(scheduler)
    compiled = config["compiled"] and not why
    log.info("decides: %s", "compiled" if compiled else f"python ({why or 'compiled=false'})")
    warm_up(experiment.game, scheduler, compiled=compiled)
    finish_startup()
    run = run_with_progress(simulator, scheduler, experiment.seed, compiled=compiled)
    metrics = summarise(run)
    write_outputs(launch.folder, run, config)
    record = replace(launch.record, labels=labels, assumed=assumed)
    write_run(launch.folder, run, metrics, record)
    print(f"{labels.scheduler} on {labels.workload}, {labels.topology}")
    print("\n".join(f"  {words}" for words in (line, *experiment.gpu_notes)))
    _print_headline(metrics, launch.folder)


def _jobs(experiment: Experiment, part: str | None, window: int) -> JobTable:
    """The whole workload, or one window of a part."""
    if part is not None:
        return experiment.window(part, window)
    if window != 0:
        raise ConfigError(
            f"window is {window} but part is null; add part=test (or train, validation)"
        )
    return experiment.whole()


def _print_headline(metrics: Mapping[str, float | int], folder: Path) -> None:
    for key in HEADLINE_KEYS:
        print(f"  {key:20} {_cell(key, metrics[key])}")
    print(f"results in {folder}")


def _cell(key: str, value: float | int) -> str:
    """Counts as they are, simulated times in hours too, and words where nothing was measured."""
    if math.isnan(value):
        return "-  (compiled: not timed one by one)" if key == "decision_ms_mean" else "-"
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.4g}" if abs(value) < 1 else f"{value:,.1f}"
    hours = f"{value / HOUR_S:,.2f}"
    simulated = key.endswith("_s") and key != "loop_wall_s" and hours != "0.00"
    return f"{text:12}  {hours} h" if simulated else text


if __name__ == "__main__":
    run_main(main)
