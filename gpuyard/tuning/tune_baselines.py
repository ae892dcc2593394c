"""Chooses baselines' settings on validation windows: `python scripts/tune_baselines.py`.

Finished runs are kept, as by `reproduce.py`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import check_confidence
from gpuyard.launch.start import Launch, program, start
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.node import debug_overrides, reproduction_of, sweeps
from gpuyard.reproduction.plan import Cell, Planned, cells_of, plan_of
from gpuyard.reproduction.work import run_missing
from sim.errors import GpuYardError
from sim.report.atomic import write_atomically
from sim.report.league import LeagueRun
from sim.report.tuning_table import tuning_csv, tuning_markdown, tuning_rows, tuning_table

log = logging.getLogger(__name__)

PROGRAM = "tune_baselines"
CHOOSERS = ("experiment", "debug")
RESULT_FILES = ("tuned.csv", "tuned.md")
BETWEEN = ": "  # of an entry's name and its setting


@program(PROGRAM)
def main(cfg: DictConfig) -> None:
    """Run every setting on every cell and validation window, write and print the best."""
    launch = start(cfg, reproduces=True)
    check_confidence(launch.config)
    planned = _planned(launch)
    for name in RESULT_FILES:
        (launch.folder / name).unlink(missing_ok=True)
    rows, failures = run_missing(planned, launch.folder, jobs=launch.config["jobs"])
    if failures:
        raise GpuYardError("\n".join([f"{len(failures)} runs failed; the first:", failures[0]]))
    runs = [
        LeagueRun(p.cell, p.workload, row)
        for p, row in zip(planned, rows, strict=True)
        if row is not None
    ]
    table = tuning_rows(runs, between=BETWEEN, confidence=launch.config["confidence"])
    write_atomically(launch.folder / "tuned.csv", tuning_csv(table))
    write_atomically(launch.folder / "tuned.md", tuning_markdown(table).encode())
    table_console().print(tuning_table(table))
    print(f"results in {launch.folder}")


def _planned(launch: Launch) -> list[Planned]:
    """Every run: the line-up's entries, one contender a setting, named after it."""
    hydra_config = HydraConfig.get()
    found = reproduction_of(launch.config.get("reproduce"), experiment=PROGRAM)
    words = [str(word) for word in hydra_config.overrides.task]
    groups = [word for word in words if word.partition("=")[0].lstrip("+") in CHOOSERS]
    later = [word for word in words if word not in groups]
    debug = debug_overrides(hydra_config.runtime.choices["debug"])
    cells = cells_of(found, program=PROGRAM, base=groups, later=[*debug, *later])
    spread = [_spread(cell) for cell in cells[: launch.config["most_cells"]]]
    planned = plan_of(spread, missing=launch.config["missing"])
    log.info("%d cells, %d runs", len(spread), len(planned))
    return planned


def _spread(cell: Cell) -> Cell:
    """The cell with one entry a setting instead of values with commas."""
    entries: list[dict[str, object]] = []
    for number, entry in enumerate(cell.config["lineup"]["entries"]):
        name, words = entry.get("name"), entry["overrides"]
        if not name:
            raise ConfigError(f"lineup.entries[{number}] has no name; tuning needs one for it")
        for chosen in sweeps(words):
            entries.append(
                {
                    **entry,
                    "overrides": list(chosen),
                    "name": name + BETWEEN + _setting(chosen, words),
                }
            )
    return replace(cell, config={**cell.config, "lineup": {"entries": entries}})


def _setting(chosen: Sequence[str], words: Sequence[str]) -> str:
    """What was swept, like `quantum_gpu_s=3600`."""
    swept = [word for word, whole in zip(chosen, words, strict=True) if word != whole]
    pairs = [word.partition("=") for word in swept]
    return " ".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in pairs)
