"""Compare traces: `python scripts/compare_traces.py workload@real=csv real.path=FILE`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.table import Table

from gpuyard.launch.build import build, section
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import SEED, check_plain
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import table_console
from sim.jobs import JobTable
from sim.physics.shipped_files import ShippedProfiles
from sim.report.atomic import write_atomically
from sim.report.likeness_report import (
    HEADERS,
    NOTE,
    likeness_cells,
    likeness_csv,
    likeness_json,
    trace_page,
)
from sim.traces.estimators import NoEstimator
from sim.traces.likeness import Distance, JobSample, likeness
from sim.traces.setting import Setting

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


NO_LIMIT = 1 << 60  # GPUs: no gang is too large to be compared
PARTS = ("train", "validation", "test")


def jobs_of(config: Mapping[str, Any], key: str, *, part: str | None, seed: int) -> JobTable:
    """Every job of the workload in section `key`, or of a part of its time span.

    Raises:
        ConfigError: the part is unknown.
        TraceError: the file cannot be read.
    """
    if part is not None and part not in PARTS:
        raise ConfigError(f"part is {part!r}; it must be null or one of {', '.join(PARTS)}")
    setting = Setting(
        gpus=NO_LIMIT,
        partitions=1,
        skew=0.0,
        catalogue=ShippedProfiles(),
        estimator=NoEstimator(),
    )
    workload = build(config, key)
    jobs: JobTable
    if part is None:
        jobs = workload.whole(setting=setting, seed=seed)
    else:
        jobs = workload.window(part=part, index=0, setting=setting, seed=seed)
    return jobs


def is_generated(config: Mapping[str, Any], key: str) -> bool:
    """Whether section `key` describes generated jobs, another draw for each seed."""
    return "spec" in section(config, key)
