"""Compare traces: `python scripts/compare_traces.py workload@real=csv real.path=FILE`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from launch import run_main, start
from omegaconf import DictConfig
from plain_rules import SEED, check_plain
from rich.table import Table
from terminal import table_console
from trace_source import is_generated, jobs_of

from sim.report.atomic import write_atomically
from sim.report.figure_traces import trace_page
from sim.report.likeness_table import HEADERS, NOTE, likeness_cells, likeness_csv, likeness_json
from sim.traces.job_sample import JobSample
from sim.traces.likeness import Distance, likeness

RULES = {**SEED, "draws": (True, 1)}


@hydra.main(version_base=None, config_path="../conf", config_name="compare_traces")
def main(cfg: DictConfig) -> None:
    """Read or generate both sides, measure, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    names = config["real"]["name"], config["generated"]["name"]
    real = JobSample.of(jobs_of(config, "real", part=config["part"], seed=config["seed"]), names[0])
    draws = _draws(config, len(real))
    distances = likeness(real, draws)
    about = {
        "real": names[0], "generated": names[1], "jobs": len(real), "draws": len(draws),
        "part": config["part"], "seed": config["seed"],
    }  # fmt: skip
    _write(launch.folder, distances, about)
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


def _write(folder: Path, distances: Sequence[Distance], about: dict[str, Any]) -> None:
    write_atomically(folder / "likeness.csv", likeness_csv(distances).encode())
    write_atomically(folder / "likeness.json", likeness_json(distances, about).encode())


def _table(distances: Sequence[Distance], names: tuple[str, str]) -> Table:
    table = Table(*HEADERS, title=f"{names[0]} and {names[1]}", title_justify="left")
    for distance in distances:
        far = distance.over_floor > 1
        table.add_row(*likeness_cells(distance), style="bold" if far else None)
    return table


if __name__ == "__main__":
    run_main(main)
