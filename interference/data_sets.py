"""The sets of co-location rows that models are fitted on, found in a folder or generated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.generated import generated_rows
from interference.readers import deepshare, gavel, lucid
from interference.readers.own_csv import rows_of_csv
from interference.rows import CoRows, SoloProfiles
from sim.errors import PhysicsError

Reader = Callable[[Path | str], tuple[CoRows, SoloProfiles]]
PUBLISHED: dict[str, tuple[str, Reader]] = {
    "gavel": (gavel.PAIRS, gavel.rows_of_gavel),
    "lucid": (lucid.PAIRS, lucid.rows_of_lucid),
    "deepshare": (deepshare.PAIRS, deepshare.rows_of_deepshare),
}
OWN = "colocation.csv"


@dataclass(frozen=True)
class DataSet:
    """Rows of one source that one model can be fitted on, and the profiles of their jobs."""

    rows: CoRows
    solos: SoloProfiles
    source: str  # "measured" or "generated"


def data_sets(
    data_dir: Path | None, *, seed: int, names: list[str] | None = None
) -> dict[str, DataSet]:
    """Sets by name.

    Args:
        data_dir: folder with published sets, a folder or csv file of our own schema, or None.
        seed: of generated rows, which stand in where `data_dir` has none.
        names: only these; None: all that are there.

    Raises:
        PhysicsError: for a set that is not there, and for faulty rows.
    """
    found = _found(None if data_dir is None else Path(data_dir))
    if not found and (data_dir is None or Path(data_dir).suffix != ".csv"):
        rows, solos = generated_rows(np.random.default_rng(seed))
        found = {"generated": lambda: DataSet(rows, solos, "generated")}
    for name in names or ():
        if name not in found:
            raise PhysicsError(f"data_sets names {name!r}; {data_dir} has {', '.join(found)}")
    return {name: read() for name, read in found.items() if names is None or name in names}


def _found(data_dir: Path | None) -> dict[str, Callable[[], DataSet]]:
    if data_dir is None:
        return {}
    if data_dir.suffix == ".csv" or (data_dir / OWN).is_file():
        rows, solos = rows_of_csv(data_dir)
        return {name: _part(rows, solos, name) for name in sorted(set(rows.source))}
    return {
        name: _published(read, data_dir)
        for name, (file, read) in PUBLISHED.items()
        if (data_dir / file).is_file()
    }


def _part(rows: CoRows, solos: SoloProfiles, name: str) -> Callable[[], DataSet]:
    return lambda: DataSet(rows.take(rows.source == name), solos, "measured")


def _published(read: Reader, folder: Path) -> Callable[[], DataSet]:
    return lambda: DataSet(*read(folder), "measured")
