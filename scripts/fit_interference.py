"""Fit co-location models: `python scripts/fit_interference.py data_dir=DIR`."""

from pathlib import Path

import hydra
from launch import run_main, start
from launch_errors import ConfigError
from omegaconf import DictConfig
from plain_rules import SEED, check_plain
from rich.table import Table
from terminal import table_console

from interference.fit import FitReport, fit_and_report


@hydra.main(version_base=None, config_path="../conf", config_name="fit_interference")
def main(cfg: DictConfig) -> None:
    """Fit, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, SEED)
    folds = config["folds"]
    if type(folds) is not int or folds < 2:  # noqa: PLR2004  (one fold holds nothing out)
        raise ConfigError(f"folds is {folds!r}; it must be a whole number from 2")
    data_dir = None if config["data_dir"] is None else Path(config["data_dir"])
    if data_dir is not None and data_dir.suffix == ".csv" and not data_dir.is_file():
        raise ConfigError(f"data_dir is {data_dir}, which is not there; name a file or a folder")
    report = fit_and_report(
        data_dir=data_dir, out_dir=launch.folder, seed=config["seed"], folds=folds
    )
    print(_source(report, data_dir))
    table_console().print(_table(report))
    print(f"best on held-out pairs: {report.best}; results in {launch.folder}")


def _source(report: FitReport, data_dir: Path | None) -> str:
    """Whether the rows were measured, said plainly."""
    if report.source == "measured":
        return f"fitted on MEASURED rows from {data_dir}"
    where = "data_dir is null" if data_dir is None else f"{data_dir} holds no measured pairs"
    return f"fitted on GENERATED rows ({where}): the errors say nothing about real GPUs"


def _table(report: FitReport) -> Table:
    columns = list(report.table[0])
    table = Table(*columns, title="errors of normalised speed", title_justify="left")
    for row in report.table:
        table.add_row(*(str(row[column]) for column in columns))
    return table


if __name__ == "__main__":
    run_main(main)
