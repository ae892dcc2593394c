"""The sets of co-location rows that models are fitted on, found in a folder or generated.

And measurements of one's own: rows and solo profiles in the columns of the schema.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from interference.readers.pairs import PUBLISHED, Published
from interference.readers.table import Table, faults_at, file_of, header_of, read_table
from interference.rows import (
    CO_TYPES,
    JOIN,
    PLAIN,
    SOLO_TYPES,
    CoRows,
    Fault,
    RowFault,
    SoloProfiles,
    check_profiled,
    co_rows,
    jobs_of,
    solo_profiles,
)
from sim.arrays import objects
from sim.errors import PhysicsError
from sim.files import csv_text, write_atomically
from sim.physics.catalogue import Catalogue
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles

ROWS_FILE, SOLOS_FILE = "colocation.csv", "solo_profiles.csv"
ROWS_NEEDED = ("source", "gpu_type", "sharing", "group", "victim", "aggressors", "norm_speed")
SOLOS_NEEDED = ("source", "gpu_type", "profile")
# Values of a column that is not there.
ABSENT: dict[str, Any] = {**PLAIN, "batch": 0, "amp": False, "gpus": 1, "nodes": 0}


def rows_of_csv(path: Path | str) -> tuple[CoRows, SoloProfiles]:
    """Rows in the columns of the schema, and the solo profiles of their jobs.

    `path` is the file of rows, with `SOLOS_FILE` beside it; or the folder of `ROWS_FILE` and
    `SOLOS_FILE`. Aggressors are joined by "+"; norm_speed is empty where feasible is 0.

    Raises:
        PhysicsError: naming file, line, column, value and fix.
    """
    rows_path = file_of(path, ROWS_FILE) if Path(path).is_dir() else Path(path)
    table = _read(rows_path, ROWS_NEEDED, CO_TYPES)
    solos_path = file_of(rows_path.parent, SOLOS_FILE)
    solos_table = _read(solos_path, SOLOS_NEEDED, SOLO_TYPES)
    with faults_at(solos_table.place):
        columns = _columns(solos_table, SOLO_TYPES)
        if "model" not in solos_table.columns:
            columns["model"] = columns["profile"]
        solos = SoloProfiles(**columns)
    with faults_at(table.place):
        rows = CoRows(**_columns(table, CO_TYPES))
        _refuse_twice(rows)
    with faults_at(table.place, lambda _: f" (runs alone are in {solos_path})"):
        check_profiled(rows, solos)
    return rows, solos


def write_csv(folder: Path | str, rows: CoRows, solos: SoloProfiles) -> None:
    """Write the two files that `rows_of_csv(folder)` gives back, value for value."""
    _write(Path(folder) / ROWS_FILE, tuple(CO_TYPES), rows)
    _write(Path(folder) / SOLOS_FILE, tuple(SOLO_TYPES), solos)


def _read(path: Path, needed: tuple[str, ...], types: dict[str, type]) -> Table:
    return read_table(path, needed, [name for name in types if name not in needed])


def _refuse_twice(rows: CoRows) -> None:
    """Raise a RowFault for a victim with more rows of a group than the group has of its jobs."""
    seen: dict[tuple[object, ...], list[int]] = {}
    keys = zip(rows.group.tolist(), rows.share.tolist(), rows.relative_to, rows.victim, strict=True)
    for row, (key, jobs) in enumerate(zip(keys, jobs_of(rows), strict=True)):
        same = seen.setdefault(key, [])
        same.append(row)
        if len(same) > jobs.count(key[-1]):
            fix = f"keep one, or give a measurement of its own a group other than {key[0]}"
            raise RowFault("co-location", Fault(row, "victim", key[-1], fix, same[0]))


def _columns(table: Table, types: dict[str, type]) -> dict[str, npt.NDArray[Any]]:
    read: dict[type, Callable[[str], npt.NDArray[Any]]] = {
        np.object_: lambda name: table.texts(name, absent=str(ABSENT.get(name, ""))),
        np.float64: lambda name: table.numbers(name, absent=float(ABSENT.get(name, np.nan))),
        np.int64: lambda name: table.wholes(name, absent=int(ABSENT.get(name, 0))),
        np.bool_: lambda name: table.flags(name, absent=bool(ABSENT.get(name, False))),
    }
    columns = {name: read[numpy_type](name) for name, numpy_type in types.items()}
    if "aggressors" in columns:
        columns["aggressors"] = objects([
            tuple(sorted(part.strip() for part in text.split(JOIN))) if text else ()
            for text in table.texts("aggressors")
        ])  # fmt: skip
    return columns


def _write(path: Path, types: Sequence[str], table: CoRows | SoloProfiles) -> None:
    columns = [map(_cell, getattr(table, name).tolist()) for name in types]
    write_atomically(path, csv_text(types, zip(*columns, strict=True)).encode())


def _cell(value: str | float | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return JOIN.join(value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "" if np.isnan(value) else repr(value)
    return str(value)


Read = Callable[[Path, Path | None], tuple[CoRows, SoloProfiles]]
LEAST_LIKE = 0.5  # share of a format's columns from which a file is taken for one of it


@dataclass(frozen=True)
class Format:
    """Columns of a published file of pairs, or of our own schema."""

    file: str
    columns: tuple[str, ...]
    read: Read  # from the file, and the folder of the runs alone


def rows_of_file(path: Path, *, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
    """Rows of a file in the columns of one of `FORMATS`, and solo profiles of their jobs.

    `folder` has the published runs alone, the only source of their solo profiles; rows of our own
    schema have them in the file beside `path`.

    Raises:
        PhysicsError: naming file, line, column, value and fix.
    """
    return format_of(path).read(path, folder)


def format_of(path: Path) -> Format:
    """Whose columns a file has, most of them at least; PhysicsError: nobody's."""
    header = header_of(path)
    likeness = {
        each.file: len(set(each.columns) & set(header)) / len(each.columns) for each in FORMATS
    }
    best = max(FORMATS, key=lambda each: likeness[each.file])
    if likeness[best.file] < LEAST_LIKE:
        known = "; ".join(f"{each.file}: {', '.join(each.columns)}" for each in FORMATS)
        raise PhysicsError(
            f"{path}:1: the columns {', '.join(header) or '(none)'} are of no known file of "
            f"co-location rows; give those of one of these. {known}"
        )
    return best


def _read_beside(of: Published) -> Read:
    def read(path: Path, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
        if folder is None:
            raise PhysicsError(
                f"{path}: rows of {of.source} need {of.alone}; set data_dir to the folder that "
                "holds it"
            )
        return of.read(folder, pairs=path)

    return read


FORMATS = (
    *(Format(Path(each.pairs).name, each.columns, _read_beside(each)) for each in PUBLISHED),
    Format(ROWS_FILE, ROWS_NEEDED, lambda path, _: rows_of_csv(path)),
)

GENERATED = "generated"
PAIRS_A_TYPE = 224  # as many pairs a GPU type as the measured set has


def generated_rows(rng: np.random.Generator) -> tuple[CoRows, SoloProfiles]:
    """Both directions of `PAIRS_A_TYPE` random pairs of the shipped table on each GPU type."""
    catalogue = ShippedProfiles()
    table = ShippedInterference().pair_table(catalogue)
    first, second = np.triu_indices(len(catalogue.names))
    columns = []
    for gpu_type in range(len(catalogue.gpu_types)):
        chosen = rng.choice(len(first), PAIRS_A_TYPE, replace=False)
        a, b = first[chosen], second[chosen]
        number = gpu_type * PAIRS_A_TYPE + np.arange(PAIRS_A_TYPE)
        other = a != b
        columns.append(np.stack([np.full(len(a), gpu_type), number, a, b]))
        columns.append(np.stack([np.full(len(a), gpu_type), number, b, a])[:, other])
    gpu_type, group, victim, aggressor = np.concatenate(columns, axis=1)
    feasible = table.feasible[gpu_type, victim, aggressor]
    name = objects(catalogue.names)
    rows = co_rows(
        source=GENERATED,
        gpu_type=objects(catalogue.gpu_types)[gpu_type],
        group=group,
        victim=name[victim],
        aggressors=[(other,) for other in name[aggressor]],
        norm_speed=np.where(feasible, 1.0 / table.slowdown[gpu_type, victim, aggressor], np.nan),
        feasible=feasible,
    )
    return rows, _generated_solos(catalogue)


def _generated_solos(catalogue: Catalogue) -> SoloProfiles:
    """A solo profile of every (type, name) whose step time is known: that time and no more."""
    known = [
        (gpu_type, row)
        for gpu_type in range(len(catalogue.gpu_types))
        for row in range(len(catalogue.names))
        if np.isfinite(catalogue.compute_s[row, gpu_type])
    ]
    names = [catalogue.names[row] for _, row in known]
    models = [name.rpartition("/")[0] for name in names]
    return solo_profiles(
        source=GENERATED,
        gpu_type=[catalogue.gpu_types[gpu_type] for gpu_type, _ in known],
        profile=names,
        model=models,
        batch=np.array([int(name.rpartition("/")[2]) for name in names], dtype=np.int64),
        step_s=np.array([catalogue.compute_s[row, gpu_type] for gpu_type, row in known]),
    )


@dataclass(frozen=True)
class DataSet:
    """Rows of one source that one model can be fitted on, and the profiles of their jobs."""

    rows: CoRows
    solos: SoloProfiles
    source: str  # "measured" or "generated"


def data_sets(
    data_dir: Path | None, *, seed: int, names: list[str] | None = None
) -> dict[str, DataSet]:
    """Sets by name, of a folder with published sets, or a folder or csv file of our own schema.

    Generated rows stand in where there is none; `names`: only these.

    Raises:
        PhysicsError: for a set that is not there, and for faulty rows.
    """
    found = _found(None if data_dir is None else Path(data_dir))
    if not found and (data_dir is None or Path(data_dir).suffix != ".csv"):
        if measured := set(names or ()) - {GENERATED}:
            raise PhysicsError(
                f"data_sets names {min(measured)!r}, and there are no measured rows in {data_dir}; "
                "set GPUYARD_DATA or data_dir to a folder that has them"
            )
        rows, solos = generated_rows(np.random.default_rng(seed))
        found = {GENERATED: lambda: DataSet(rows, solos, GENERATED)}
    for name in names or ():
        if name not in found:
            raise PhysicsError(f"data_sets names {name!r}; {data_dir} has {', '.join(found)}")
    return {name: read() for name, read in found.items() if names is None or name in names}


def _found(data_dir: Path | None) -> dict[str, Callable[[], DataSet]]:
    if data_dir is None:
        return {}
    if data_dir.suffix == ".csv" or (data_dir / ROWS_FILE).is_file():
        rows, solos = rows_of_csv(data_dir)
        return {
            name: partial(DataSet, rows.take(rows.source == name), solos, "measured")
            for name in sorted(set(rows.source))
        }
    if (data_dir / SOLOS_FILE).is_file():  # rows of one's own, under another name
        file_of(data_dir, ROWS_FILE)
    return {
        each.source: partial(_measured, each, data_dir)
        for each in PUBLISHED
        if (data_dir / each.pairs).is_file()
    }


def _measured(of: Published, folder: Path) -> DataSet:
    return DataSet(*of.read(folder), "measured")
