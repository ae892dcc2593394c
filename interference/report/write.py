"""The files of a report, each there whole or not at all."""

import re
from pathlib import Path

from interference.report.error_table import csv_blocks, json_blocks, markdown_blocks
from interference.report.heat_map import heat_map
from interference.report.pair_grid import grids
from interference.report.reliability import reliability, tells_rows_apart
from interference.report.residuals import residuals
from interference.report.results import HELD_OUT_PAIRS, Results
from interference.report.worst import by_victim_model, csv_of, worst_rows
from sim.report.atomic import write_atomically

FILES = (
    "errors.json", "error_table.md", "error_table.csv", "worst.csv", "worst_by_model.csv",
    "model_card.md", "model.json", "memory_fit.json",
)  # fmt: skip
FIGURES = ("heat_*.png", "reliability_*.png", "residuals_*.png")


def remove_report(folder: Path) -> None:
    """Forget an earlier report in this folder, so that a failure leaves nothing like a result."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    for pattern in FIGURES:
        for path in folder.glob(pattern):
            path.unlink()


def write_tables(results: Results, folder: Path) -> None:
    """Errors as JSON, page and sheet; what the model is worst at."""
    texts = {
        "errors.json": json_blocks(results),
        "error_table.md": markdown_blocks(results),
        "error_table.csv": csv_blocks(results),
        "worst.csv": csv_of(worst_rows(results)),
        "worst_by_model.csv": csv_of(by_victim_model(results)),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())


def write_figures(results: Results, folder: Path) -> None:
    """Maps of pairs (held-out ones and those of files), reliability and residuals by data set."""
    for name, judged in results.judged.items():
        drawn = results.drawn(name)
        _maps(results, name, folder)
        residuals(
            list(results.of_drawn(name)),
            title=f"{name}: errors of {drawn}",
            path=folder / f"residuals_{_plain(name)}.png",
        )
        if any(tells_rows_apart(held) for by in judged.values() for held in by.values()):
            path = folder / f"reliability_{_plain(name)}.png"
            reliability(judged, title=f"{name}: intervals against truths", path=path)


def _maps(results: Results, data_set: str, folder: Path) -> None:
    for split, held in results.of_drawn(data_set):
        if split != HELD_OUT_PAIRS and not results.is_of_files(data_set, split):
            continue  # rows of other folds are the same pairs, some of them twice
        for kind, grid in grids(held, results.solos[data_set]).items():
            heat_map(
                grid,
                title=f"{data_set}, {kind}: {results.drawn(data_set)} on the split {split}",
                path=folder / f"heat_{_plain(f'{data_set}_{kind}_{split}')}.png",
            )


def _plain(name: str) -> str:
    """Letters and digits of a name, for a file."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")
