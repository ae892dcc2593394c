"""A run as `scripts/simulate.py` would make it, from the same configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir

from gpuyard.experiment.experiment import Experiment, composition_of, experiment_of
from gpuyard.launch.build import resolve
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import simulate

ROOT = Path(__file__).resolve().parents[1]

__all__ = ["NO_PHYSICS", "Bench", "bench", "compose_config", "experiment_of"]
NO_PHYSICS = ("interference=none", "network=none", "belief=none", "max_tenants=1", "restart_s=0")


@dataclass(frozen=True)
class Bench:
    """One scheduler on one workload."""

    experiment: Experiment
    scheduler: Scheduler
    jobs: JobTable

    def play(self, *, compiled: bool = True) -> Run:
        """One run from time 0; its `loop_wall_s` is what counts."""
        simulator = self.experiment.game.simulator(self.jobs)
        return simulate(simulator, self.scheduler, 0, None, compiled=compiled)


def compose_config(program: str, *overrides: str) -> dict[str, Any]:
    """The resolved configuration of a program."""
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        return resolve(compose(program, overrides=list(overrides)))[0]


def bench(*overrides: str) -> Bench:
    """Compose `conf/simulate.yaml` with `overrides`."""
    config = compose_config("simulate", *overrides)
    experiment = experiment_of(config)
    scheduler = composition_of(config, experiment.game.partitions)
    return Bench(experiment, scheduler, experiment.whole())
