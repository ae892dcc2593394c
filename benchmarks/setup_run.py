"""A run as `scripts/simulate.py` would make it, from the same configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir

from gpuyard.evaluation.experiment import Experiment, composition_of, experiment_of
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
        simulator = self.experiment.world.simulator(self.jobs)
        return simulate(simulator, self.scheduler, 0, None, compiled=compiled)


def compose_config(program: str, *overrides: str) -> dict[str, Any]:
    """The resolved configuration of a program."""
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        return resolve(compose(program, overrides=list(overrides)))


def bench(*overrides: str) -> Bench:
    """Compose `conf/simulate.yaml` with `overrides`."""
    config = compose_config("simulate", *overrides)
    experiment = experiment_of(config)
    scheduler = composition_of(config, experiment.world.partitions)
    return Bench(experiment, scheduler, experiment.whole())


SIZES, SHARES = (1, 2, 4, 8, 16, 32), (0.70, 0.10, 0.08, 0.08, 0.03, 0.01)
MEDIAN_S, SIGMA, SHORTEST_S, LONGEST_S = 800.0, 1.8, 30.0, 72 * 3600.0


def synthetic(jobs: int, gpus: int, load: float, seed: int) -> tuple[np.ndarray, ...]:
    """Submission, gang and duration of Philly-like jobs: log-normal, Poisson, at `load`."""
    rng = np.random.default_rng(seed)
    duration_s = np.exp(np.log(MEDIAN_S) + SIGMA * rng.standard_normal(jobs))
    duration_s = np.floor(np.clip(duration_s, SHORTEST_S, LONGEST_S))
    num_gpus = rng.choice(SIZES, size=jobs, p=SHARES)
    gap_s = float(np.dot(num_gpus, duration_s)) / jobs / (load * gpus)
    submit_s = np.floor(np.cumsum(rng.exponential(gap_s, jobs)))
    return submit_s - submit_s[0], num_gpus, duration_s


def write_csv(path: Path, columns: tuple[np.ndarray, ...]) -> None:
    """As `workload=csv` reads it."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"{job},{s:g},{g},{d:g}" for job, (s, g, d) in enumerate(rows)]
    header = "job_id,submit_s,num_gpus,duration_s"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
