"""Co-location rows drawn from the shipped physics, for use without measured rows."""

import numpy as np

from interference.readers.solo_columns import solo_profiles
from interference.rows import CoRows, SoloProfiles, objects
from sim.arrays import FloatArray, IntArray
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
