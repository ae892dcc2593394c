"""Measurements of one's own: co-location rows and solo profiles in the columns of the schema."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from interference.readers import deepshare, gavel, lucid, own_csv
from interference.readers.table import Table, file_of, header_of, read_table, told_at
from interference.row_rules import JOIN
from interference.rows import CO_TYPES, SOLO_TYPES, CoRows, SoloProfiles, check_profiled
from sim.arrays import objects
from sim.errors import PhysicsError

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


Read = Callable[[Path, Path | None], tuple[CoRows, SoloProfiles]]
LEAST_LIKE = 0.5  # share of a layout's columns from which a file is taken for one of it


@dataclass(frozen=True)
class Layout:
    """Columns of a published file of pairs, or of our own schema."""

    file: str
    columns: tuple[str, ...]
    read: Read  # from the file, and the folder of the runs alone


def rows_of_file(path: Path, *, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
    """Rows of a file, and solo profiles that hold those of its jobs.

    Args:
        path: in the columns of one of `LAYOUTS`.
        folder: of the published sets, whose runs alone are the only source of solo profiles; rows
            of our own schema have them in the file beside `path`.

    Raises:
        PhysicsError: naming file, line, column, value and fix.
    """
    return layout_of(path).read(path, folder)


def layout_of(path: Path) -> Layout:
    """Whose columns a file has, most of them at least.

    Raises:
        PhysicsError: if they are nobody's.
    """
    header = header_of(path)
    likeness = {
        layout.file: len(set(layout.columns) & set(header)) / len(layout.columns)
        for layout in LAYOUTS
    }
    best = max(LAYOUTS, key=lambda layout: likeness[layout.file])
    if likeness[best.file] < LEAST_LIKE:
        known = "; ".join(f"{each.file}: {', '.join(each.columns)}" for each in LAYOUTS)
        raise PhysicsError(
            f"{path}:1: the columns {', '.join(header) or '(none)'} are of no known file of "
            f"co-location rows; give those of one of these. {known}"
        )
    return best


def _published(source: str, read: Callable[..., tuple[CoRows, SoloProfiles]], alone: str) -> Read:
    def read_beside(path: Path, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
        if folder is None:
            raise PhysicsError(
                f"{path}: rows of {source} need {alone}; set data_dir to the folder that holds it"
            )
        return read(folder, pairs=path)

    return read_beside


LAYOUTS = (
    Layout(
        "gavel_pairs.csv",
        gavel.PAIR_COLUMNS,
        _published(gavel.SOURCE, gavel.rows_of_gavel, gavel.ISOLATED),
    ),
    Layout(
        "lucid_pairs.csv",
        lucid.PAIR_COLUMNS,
        _published(lucid.SOURCE, lucid.rows_of_lucid, lucid.SINGLE),
    ),
    Layout(
        "deepshare_network_pairs.csv",
        deepshare.PAIR_COLUMNS,
        _published(deepshare.SOURCE, deepshare.rows_of_deepshare, deepshare.ISOLATED),
    ),
    Layout(own_csv.ROWS_FILE, own_csv.ROWS_NEEDED, lambda path, _: own_csv.rows_of_csv(path)),
)
