"""Error bands of duration estimators: `python scripts/predictor_bands.py data_dir=DIR`."""

import csv
import io
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from launch import run_main, start
from launch_build import build, section
from launch_errors import ConfigError
from omegaconf import DictConfig
from plain_rules import SEED, check_plain
from rich.table import Table
from terminal import table_console
from trace_source import NO_LIMIT

from sim.jobs import JobTable
from sim.metrics.prediction_bands import PredictionBands, prediction_bands
from sim.physics.shipped_files import ShippedProfiles
from sim.report.atomic import write_atomically
from sim.traces.setting import Setting
from sim.traits import Identity

log = logging.getLogger(__name__)

FIGURES = tuple(each.name for each in fields(PredictionBands))
SHOWN = ("10 %", "25 %", "50 %", "factor 2", "beyond", "median factor", "rank corr.")


class Row(NamedTuple):
    """One estimator on one trace."""

    trace: str
    identity: str  # which columns of identity the trace has
    jobs: int
    estimator: str
    bands: PredictionBands


@hydra.main(version_base=None, config_path="../conf", config_name="predictor_bands")
def main(cfg: DictConfig) -> None:
    """Read or generate every trace, predict with every estimator, write, print."""
    launch = start(cfg)
    check_plain(launch.config, SEED)
    rows = list(_rows(launch.config))
    if not rows:
        raise ConfigError("traces: none of the files exists; set data_dir")
    write_atomically(launch.folder / "bands.csv", _csv(rows).encode())
    table_console().print(_table(rows))
    print(f"results in {launch.folder}")


def _rows(config: Mapping[str, Any]) -> Iterator[Row]:
    """Trace by trace; files that do not exist are left out."""
    for name, options in config["traces"].items():
        path = options.get("path")
        if path is not None and not Path(path).is_file():
            log.warning("traces.%s: %s does not exist; left out", name, path)
            continue
        workload = build({name: {**options, **section(config, "as_found")}}, name)
        for estimator in config["estimators"]:
            setting = Setting(
                gpus=NO_LIMIT,
                partitions=1,
                skew=0.0,
                catalogue=ShippedProfiles(),
                estimator=build(config, f"estimators.{estimator}"),
            )
            jobs: JobTable = workload.whole(setting=setting, seed=config["seed"])
            bands = prediction_bands(jobs.estimate_s, jobs.duration_s)
            yield Row(name, _identity(jobs.identity), len(jobs), estimator, bands)
            log.info("%s: %s done", name, estimator)


def _identity(identity: Identity | None) -> str:
    """Names of the columns that say who a job belongs to, or `none`."""
    if identity is None:
        return "none"
    names = ("group", "user", "vc")
    return " ".join(name for name in names if (getattr(identity, name) >= 0).any())


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("trace", "identity", "jobs", "estimator", *FIGURES))
    for row in rows:
        writer.writerow((*row[:-1], *(repr(asdict(row.bands)[name]) for name in FIGURES)))
    return text.getvalue()


def _table(rows: list[Row]) -> Table:
    """Shares within a factor of 1.1, 1.25, 1.5 and 2 include the narrower ones."""
    table = Table(
        "trace", "identity", "jobs", "estimator", *SHOWN, title="Within the true duration"
    )
    for number, row in enumerate(rows):
        figures = asdict(row.bands)
        shares = [f"{100 * figures[name]:.1f} %" for name in FIGURES[:5]]
        rest = [f"{figures[name]:.2f}" for name in FIGURES[5:]]
        last = number + 1 == len(rows) or rows[number + 1].trace != row.trace
        cells = (row.trace, row.identity, f"{row.jobs:,}", row.estimator, *shares, *rest)
        table.add_row(*cells, end_section=last)
    return table


if __name__ == "__main__":
    run_main(main)
