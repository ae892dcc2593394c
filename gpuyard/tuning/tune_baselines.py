"""Chooses baselines' settings on validation windows: `python scripts/tune_baselines.py`.

Finished runs are kept, as by `reproduce.py`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gpuyard.launch.build import check_confidence
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch, program, start
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.node import debug_overrides, reproduction_of, sweeps
from gpuyard.reproduction.plan import Cell, Planned, cells_of, plan_of
from gpuyard.reproduction.work import run_missing
from sim.errors import GpuYardError
from sim.metrics.job_times import Interval, ratio_interval
from sim.report.files import csv_text, write_atomically
from sim.report.league import METRIC, LeagueRun, Place
from sim.report.table_text import markdown_table, ratio_text

if TYPE_CHECKING:
    from rich.table import Table


COLUMNS = ("baseline", "setting", "best", "ratio", "ratio_low", "ratio_high", "jct_mean_s", "runs")
HEADERS = ("baseline", "setting", "mean JCT [h]", "over the best")


@dataclass(frozen=True)
class TuningRow:
    """One setting of one baseline."""

    baseline: str
    setting: str
    ratio: Interval | None  # paired mean JCT over that of the best setting; None for the best
    jct_s: float  # arithmetic mean over runs
    runs: int


def tuning_rows(runs: Sequence[LeagueRun], *, between: str, confidence: float) -> list[TuningRow]:
    """Baselines in order of appearance, the settings of each by their geometric mean JCT.

    A geometric mean over cells and windows: every cell counts alike, however long its jobs are.

    Args:
        runs: of schedulers named `baseline<between>setting`; all ran at the same places.
        between: what separates the two.
        confidence: of the intervals.
    """
    times: dict[str, dict[str, dict[Place, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        baseline, _, setting = run.row.labels.scheduler.partition(between)
        times[baseline][setting][run.place] = float(run.row.metrics[METRIC])
    rows = []
    for baseline, settings in times.items():
        mean = {key: float(np.mean(np.log(list(v.values())))) for key, v in settings.items()}
        order = sorted(settings, key=mean.__getitem__)  # equal ones as in the file
        best = settings[order[0]]
        for setting in order:
            found = settings[setting]
            ratio = ratio_interval([found[p] for p in best], list(best.values()), confidence)
            rows.append(
                TuningRow(
                    baseline=baseline,
                    setting=setting,
                    ratio=None if setting == order[0] else ratio,
                    jct_s=float(np.mean(list(found.values()))),
                    runs=len(found),
                )
            )
    return rows


def tuning_csv(rows: Sequence[TuningRow]) -> bytes:
    """The bytes of `tuned.csv`."""
    lines = []
    for row in rows:
        ratio = row.ratio or Interval(1.0, 1.0, 1.0, row.runs)
        numbers = [repr(float(v)) for v in (ratio.centre, ratio.low, ratio.high, row.jct_s)]
        lines.append([row.baseline, row.setting, int(row.ratio is None), *numbers, row.runs])
    return csv_text(COLUMNS, lines).encode()


def tuning_markdown(rows: Sequence[TuningRow]) -> str:
    """The same as a table for people."""
    return "\n".join(markdown_table(HEADERS, map(_cells, rows), texts=2)) + "\n"


def tuning_table(rows: Sequence[TuningRow]) -> Table:
    """The same for a terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(*HEADERS, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(escape, _cells(row)), style="bold" if row.ratio is None else "")
    return table


def _cells(row: TuningRow) -> tuple[str, str, str, str]:
    ratio = "best" if row.ratio is None else ratio_text(row.ratio)
    return row.baseline, row.setting, f"{row.jct_s / 3600.0:.3g}", ratio


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
