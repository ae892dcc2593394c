"""Measurements of one's own: two files with the columns of the schema, read and written."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from interference.readers.table import Table, file_of, read_table, told_at
from interference.row_rules import JOIN
from interference.rows import (
    CO_TYPES,
    SOLO_TYPES,
    CoRows,
    SoloProfiles,
    check_profiled,
    objects,
)

ROWS_FILE, SOLOS_FILE = "colocation.csv", "solo_profiles.csv"
ROWS_NEEDED = ("source", "gpu_type", "sharing", "group", "victim", "aggressors", "norm_speed")
SOLOS_NEEDED = ("source", "gpu_type", "profile")
ABSENT: dict[str, str | float | bool] = {
    "split": "",
    "share": 1.0,
    "relative_to": "solo",
    "feasible": True,
    "measured": True,
    "batch": 0,
    "amp": False,
    "gpus": 1,
    "nodes": 0,
}


def rows_of_csv(path: Path | str) -> tuple[CoRows, SoloProfiles]:
    """Rows in the columns of the schema, and the solo profiles of their jobs.

    Args:
        path: the file of rows, with `SOLOS_FILE` beside it; or the folder of `ROWS_FILE` and
            `SOLOS_FILE`. Aggressors are joined by "+"; norm_speed is empty where feasible is 0.

    Raises:
        PhysicsError: naming file, line, column, value and fix.
    """
    rows_path = file_of(path, ROWS_FILE) if Path(path).is_dir() else Path(path)
    table = _read(rows_path, ROWS_NEEDED, CO_TYPES)
    solos_path = file_of(rows_path.parent, SOLOS_FILE)
    solos_table = _read(solos_path, SOLOS_NEEDED, SOLO_TYPES)
    with told_at(solos_table.place):
        columns = _columns(solos_table, SOLO_TYPES)
        if "model" not in solos_table.columns:
            columns["model"] = columns["profile"]
        solos = SoloProfiles(**columns)
    with told_at(table.place):
        rows = CoRows(**_columns(table, CO_TYPES))
    with told_at(table.place, lambda _: f" (runs alone are in {solos_path})"):
        check_profiled(rows, solos)
    return rows, solos


def write_csv(folder: Path | str, rows: CoRows, solos: SoloProfiles) -> None:
    """Write the two files that `rows_of_csv(folder)` gives back, value for value."""
    _write(Path(folder) / ROWS_FILE, CO_TYPES, rows)
    _write(Path(folder) / SOLOS_FILE, SOLO_TYPES, solos)


def _read(path: Path, needed: tuple[str, ...], types: dict[str, type]) -> Table:
    return read_table(path, needed, [name for name in types if name not in needed])


def _columns(table: Table, types: dict[str, type]) -> dict[str, npt.NDArray[Any]]:
    read: dict[type, Callable[[str], npt.NDArray[Any]]] = {
        np.object_: lambda name: table.texts(name, absent=str(ABSENT.get(name, ""))),
        np.float64: lambda name: table.numbers(name, absent=float(ABSENT.get(name, np.nan))),
        np.int64: lambda name: table.wholes(name, absent=int(ABSENT.get(name, 0))),
        np.bool_: lambda name: table.flags(name, absent=bool(ABSENT.get(name, False))),
    }
    columns = {name: read[kind](name) for name, kind in types.items()}
    if "aggressors" in columns:
        columns["aggressors"] = objects([_names_in(text) for text in table.texts("aggressors")])
    return columns


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(sorted(part.strip() for part in text.split(JOIN))) if text else ()


def _write(path: Path, types: Iterable[str], table: CoRows | SoloProfiles) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(types)
        columns = [map(_cell, getattr(table, name).tolist()) for name in types]
        writer.writerows(zip(*columns, strict=True))


def _cell(value: str | float | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return JOIN.join(value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "" if np.isnan(value) else repr(value)
    return str(value)
