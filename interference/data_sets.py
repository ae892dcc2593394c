"""The sets of co-location rows that models are fitted on, found in a folder or generated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.readers import deepshare, gavel, lucid
from interference.readers.columns import solo_profiles
from interference.readers.own_csv import rows_of_csv
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray, IntArray, objects
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles

SOURCE = "generated"
PAIRS_A_TYPE = 224  # as many pairs a GPU type as the measured set has


def generated_rows(rng: np.random.Generator) -> tuple[CoRows, SoloProfiles]:
    """Both directions of `PAIRS_A_TYPE` random pairs of the shipped table on each GPU type."""
    catalogue = ShippedProfiles()
    table = ShippedInterference().pair_table(catalogue)
    first, second = np.triu_indices(len(catalogue.names))
    columns = []
    for kind in range(len(catalogue.gpu_types)):
        chosen = rng.choice(len(first), PAIRS_A_TYPE, replace=False)
        a, b = first[chosen], second[chosen]
        number = kind * PAIRS_A_TYPE + np.arange(PAIRS_A_TYPE)
        other = a != b
        columns.append(np.stack([np.full(len(a), kind), number, a, b]))
        columns.append(np.stack([np.full(len(a), kind), number, b, a])[:, other])
    kind, group, victim, aggressor = np.concatenate(columns, axis=1)
    feasible = table.feasible[kind, victim, aggressor]
    speed = np.where(feasible, 1.0 / table.slowdown[kind, victim, aggressor], np.nan)
    return (
        pair_rows(SOURCE, catalogue, (kind, victim, aggressor), group, speed),
        catalogue_solos(SOURCE, catalogue),
    )


def pair_rows(
    source: str,
    catalogue: Catalogue,
    cells: tuple[IntArray, IntArray, IntArray],
    group: IntArray,
    norm_speed: FloatArray,
) -> CoRows:
    """Rows of pairs over a catalogue; a NaN speed is a pair that does not fit.

    Args:
        source: the rows' source.
        catalogue: P profiles on T types, which `cells` number.
        cells: (N,) GPU type, victim, aggressor.
        group: (N,) measurement of each row.
        norm_speed: (N,).
    """
    kind, victim, aggressor = cells
    n, name = len(victim), objects(catalogue.names)
    return CoRows(
        source=objects([source] * n),
        gpu_type=objects(catalogue.gpu_types)[kind],
        sharing=objects(["gpu"] * n),
        group=group,
        split=objects([""] * n),
        victim=name[victim],
        aggressors=objects([(other,) for other in name[aggressor]]),
        share=np.ones(n),
        norm_speed=norm_speed,
        relative_to=objects(["solo"] * n),
        feasible=~np.isnan(norm_speed),
        measured=np.ones(n, dtype=np.bool_),
    )


def catalogue_solos(source: str, catalogue: Catalogue) -> SoloProfiles:
    """A solo profile of every (type, name) whose step time is known: that time and no more."""
    known = [
        (kind, row)
        for kind in range(len(catalogue.gpu_types))
        for row in range(len(catalogue.names))
        if np.isfinite(catalogue.compute_s[row, kind])
    ]
    names = [catalogue.names[row] for _, row in known]
    models = [name.rpartition("/")[0] for name in names]
    return solo_profiles(
        source=source,
        gpu_type=[catalogue.gpu_types[kind] for kind, _ in known],
        profile=names,
        model=models,
        batch=np.array([int(name.rpartition("/")[2]) for name in names], dtype=np.int64),
        step_s=np.array([catalogue.compute_s[row, kind] for kind, row in known]),
    )


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
