"""Replay a trace with one scheduler: `python scripts/simulate.py workload=csv workload.path=FILE`."""

import sys

import hydra
from experiment import composition_of, experiment_of, labels_of
from launch import run_main, start
from omegaconf import DictConfig
from progress import run_with_progress
from warm import warm_up

from sim.metrics.summary import HEADLINE_KEYS, summarise
from sim.report.record import collect_record
from sim.report.run_folder import write_run


@hydra.main(version_base=None, config_path="../conf", config_name="simulate")
def main(cfg: DictConfig) -> None:
    """Compose, simulate, write."""
    launch = start(cfg)
    experiment = experiment_of(launch.config)
    objects = {"checkpoint": launch.config["checkpoint"]} if launch.config["checkpoint"] else {}
    scheduler = composition_of(launch.config, experiment.game.partitions, **objects)
    jobs = experiment.whole()
    warm_up(experiment.game, scheduler)
    simulator = experiment.game.simulator(jobs)
    run = run_with_progress(simulator, scheduler, experiment.seed)
    metrics = summarise(run)
    record = collect_record(
        labels=labels_of(experiment, scheduler, window=0, role=None),
        command=sys.argv,
        config_yaml=launch.record.config_text,
    )
    write_run(launch.folder, run, metrics, record)
    print(f"{scheduler.name} on {experiment.workload_name}, {experiment.game.topology.name}")
    for key in HEADLINE_KEYS:
        print(f"  {key:20} {metrics[key]:,.4g}" if metrics[key] < 1 else
              f"  {key:20} {metrics[key]:,.1f}")  # fmt: skip
    print(f"results in {launch.folder}")


if __name__ == "__main__":
    run_main(main)
