"""How much placement matters to jobs: `python scripts/spread_ratio.py experiment=asrpt_main`."""

import csv
import io
from itertools import product
from typing import NamedTuple

import hydra
import numpy as np
from experiment import experiment_of
from launch import run_main, start
from omegaconf import DictConfig
from rich.table import Table
from terminal import table_console

from sim.physics.alone_step import AloneStep, spread_ratio
from sim.report.atomic import write_atomically

HEADERS = ("profile", "gang", "alpha_min_s", "alpha_max_s", "ratio")


class Row(NamedTuple):
    """One profile with one gang."""

    profile: str
    gang: int
    least_s: float
    most_s: float

    @property
    def ratio(self) -> float:
        """Of the widest spread over the most compact placement."""
        return self.most_s / self.least_s


@hydra.main(version_base=None, config_path="../conf", config_name="spread_ratio")
def main(cfg: DictConfig) -> None:
    """Measure alpha_min and alpha_max of every profile and gang, and rho over a window's jobs."""
    launch = start(cfg, reproduces=True)
    experiment = experiment_of(launch.config)
    step = AloneStep(experiment.game.belief, experiment.game.topology)
    jobs = experiment.window(launch.config["part"], 0)
    names = experiment.game.physics.catalogue.names
    gangs = [gang for gang in launch.config["gangs"] if gang <= experiment.game.topology.num_gpus]
    rows = [
        Row(names[profile], gang, step.least_s(profile, gang), step.most_s(profile, gang))
        for profile, gang in product(np.unique(jobs.profile).tolist(), gangs)
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADERS)
    writer.writerows((*row, row.ratio) for row in rows)
    write_atomically(launch.folder / "spread_ratio.csv", text.getvalue().encode())
    table = Table(*HEADERS)
    for row in rows:
        cells = (f"{row.least_s:.3g}", f"{row.most_s:.3g}", f"{row.ratio:.2f}")
        table.add_row(row.profile, str(row.gang), *cells)
    table_console().print(table)
    rho = spread_ratio(step, jobs.profile, jobs.num_gpus)
    print(f"rho = {rho:.2f}: max alpha_max / alpha_min over the {len(jobs)} jobs of window 0")
    print(f"results in {launch.folder}")


if __name__ == "__main__":
    run_main(main)
