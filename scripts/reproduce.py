"""Runs the tables and figures of papers again: `python scripts/reproduce.py experiment=<id>`.

Without an experiment it lists what there is. Finished runs are kept, so the same command goes on
where it was stopped.
"""

import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from launch import Launch, run_main, start
from launch_errors import ConfigError
from omegaconf import DictConfig
from plain_rules import check_confidence
from reproduce_debug import debug_overrides
from reproduce_node import Reproduction, reproduction_of, titles
from reproduce_plan import Cell, Planned, cells_of, ours_of, plan_of
from reproduce_program import program_of
from reproduce_report import remove_reproduction, write_reproduction
from reproduce_store import PARTS
from reproduce_work import run_missing
from terminal import table_console

from sim.errors import GpuYardError
from sim.report.comparison_row import ComparisonRow
from sim.report.headline_report import write_headline
from sim.report.headline_table import headline_cells
from sim.report.league_runs import LeagueRun

if TYPE_CHECKING:
    from rich.console import Group

log = logging.getLogger(__name__)

PROGRAM = "reproduce"
CHOOSERS = ("experiment", "debug")  # groups that are dealt with apart from other overrides
FAILURES = "failures.txt"
FAILED = ("error", "skip")


@hydra.main(version_base=None, config_path="../conf", config_name=PROGRAM)
def main(cfg: DictConfig) -> None:
    """Hand over to the experiment's own program, if it names one; else run its league."""
    launch = start(cfg, reproduces=True)
    check_confidence(launch.config)
    experiment = HydraConfig.get().runtime.choices["experiment"]
    program = program_of(launch.config.get("reproduce"), experiment=str(experiment))
    run = run_league if program is None else program
    run(launch)


def _as_it_is(cell: Cell) -> Cell:
    return cell


def run_league(launch: Launch, prepared: Callable[[Cell], Cell] = _as_it_is) -> None:
    """Plan every cell, run what is missing, write, print.

    `prepared` may give a cell what its file cannot name, such as policies trained just now.

    Raises:
        ConfigError: the experiment or a value of the configuration is wrong.
        GpuYardError: runs failed and `failed` is not "skip".
    """
    failed = launch.config["failed"]
    if failed not in FAILED:
        raise ConfigError(f"failed is {failed!r}; it must be {' or '.join(FAILED)}")
    found, planned = _planned(launch, prepared)
    ours = ours_of(planned, launch.config["ours"])
    remove_reproduction(launch.folder)
    if launch.config["fresh"]:
        shutil.rmtree(launch.folder / PARTS, ignore_errors=True)
    rows, failures = run_missing(planned, launch.folder, jobs=launch.config["jobs"])
    _tell_failures(launch, failures)
    if failures and (failed != "skip" or not any(rows)):
        raise GpuYardError(
            f"{len(failures)} of {len(planned)} runs failed, which {launch.folder / FAILURES} "
            f"tells; the others are stored (failed=skip makes tables of them)"
        )
    done = [(p, ComparisonRow(p.labelled(row.labels), row.metrics))
            for p, row in zip(planned, rows, strict=True) if row is not None]  # fmt: skip
    table_console().print(_written(launch, found, done, ours))
    print(f"results in {launch.folder}")


def _written(
    launch: Launch,
    found: Reproduction,
    done: Sequence[tuple[Planned, ComparisonRow]],
    ours: str | None,
) -> "Group":
    """Write every table; return the one to be printed: the headline, or the league without ours."""
    runs = [LeagueRun(p.cell, p.workload, row) for p, row in done if not p.picks]
    confidence, level = launch.config["confidence"], launch.config["level"]
    league = write_reproduction(
        launch.folder, found, runs, ours=ours, confidence=confidence, level=level
    )
    if ours is None:
        return league
    other = found.picked_on.part if found.picked_on else ""
    cells = headline_cells(
        [run.row for run in runs],
        [row for p, row in done if p.picks],
        ours=ours,
        parts=(other, str(launch.config["part"])),
        confidence=confidence,
    )
    return write_headline(launch.folder, cells, title=found.title, confidence=confidence)


def _planned(
    launch: Launch, prepared: Callable[[Cell], Cell]
) -> tuple[Reproduction, list[Planned]]:
    """What the experiment asks for, and every run of it.

    Raises:
        ConfigError: no experiment, none that reproduces something, or a part of it is wrong.
    """
    hydra_config = HydraConfig.get()
    choices = hydra_config.runtime.choices
    experiment, debug = choices["experiment"], choices["debug"]
    if experiment is None:
        raise ConfigError(f"name an experiment: experiment={' or experiment='.join(titles())}")
    found = reproduction_of(launch.config.get("reproduce"), experiment=experiment)
    words = [str(word) for word in hydra_config.overrides.task]
    groups = [word for word in words if word.partition("=")[0].lstrip("+") in CHOOSERS]
    others = [word for word in words if word not in groups]
    cells = cells_of(found, program=PROGRAM, base=groups, later=[*debug_overrides(debug), *others])
    most = launch.config["most_cells"]
    if most is not None and (type(most) is not int or most < 1):
        raise ConfigError(f"most_cells is {most!r}; it must be a whole number from 1, or null")
    cells = [prepared(cell) for cell in cells[:most]]
    planned = plan_of(cells, missing=launch.config["missing"], picked_on=found.picked_on)
    log.info("%s: %d cells, %d runs", found.title, len(cells), len(planned))
    return found, planned


def _tell_failures(launch: Launch, failures: list[str]) -> None:
    """Write failures.txt, or remove an older one."""
    path = launch.folder / FAILURES
    path.unlink(missing_ok=True)
    if failures:
        path.write_text("\n".join(failures), encoding="utf-8")


def show_list() -> None:
    """What can be reproduced."""
    found = titles()
    width = max(map(len, found), default=0)
    for name, title in found.items():
        print(f"{name:{width}}  {title}")
    print("run one: python scripts/reproduce.py experiment=NAME (in a minute: debug=quick)")


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if word.startswith(("experiment=", "-"))]
    if asked:
        run_main(main)
    else:
        show_list()
