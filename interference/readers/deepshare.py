"""DeepShare: distributed jobs that slow each other down on the links they share."""

from pathlib import Path

import numpy as np

from interference.readers.columns import Sides, co_rows_of, in_the_file, profile_name, solo_profiles
from interference.readers.table import Table, file_of, read_table, told_at
from interference.rows import CoRows, SoloProfiles, check_profiled

SOURCE = "deepshare"
GPU_TYPE = "unknown"  # the publication's files do not name it
PAIRS = "colocation/deepshare_network_pairs.csv"
ISOLATED = "throughput/deepshare_isolated.csv"
PAIR_COLUMNS = ("model", "gpus", "nodes", "other_model", "other_gpus", "other_nodes", "norm")
OWN_NAMES = {
    "norm_speed": ("norm", "norm"),
    "victim": ("model", "model"),
    "aggressors": ("other_model", "other_model"),
}
ISOLATED_COLUMNS = ("model", "gpus", "nodes", "samples_per_s")


def rows_of_deepshare(
    folder: Path | str, *, pairs: Path | None = None
) -> tuple[CoRows, SoloProfiles]:
    """One row a directed line; the two directions of a pair are one group.

    Args:
        folder: has the runs alone, and the pairs unless `pairs` is given.
        pairs: another file with the columns of `PAIRS`.
    """
    alone = file_of(folder, ISOLATED)
    solos = _solos(read_table(alone, ISOLATED_COLUMNS))
    table = read_table(pairs or file_of(folder, PAIRS), PAIR_COLUMNS, ("split",))
    n = len(table)
    sides = Sides(
        line=np.arange(n),
        side=np.zeros(n, dtype=np.int64),
        victim=_profiles(table, ""),
        aggressor=_profiles(table, "other_"),
        norm_speed=table.numbers("norm"),
        measured=np.ones(n, dtype=np.bool_),
    )
    with told_at(table.place, in_the_file(sides, OWN_NAMES, alone)):
        rows = co_rows_of(
            sides,
            source=SOURCE,
            gpu_type=[GPU_TYPE] * n,
            sharing="network",
            split=table.texts("split"),
            feasible=np.ones(n, dtype=np.bool_),
        )
        check_profiled(rows, solos)
    return rows, solos


def _profiles(table: Table, role: str) -> list[str]:
    return [
        profile_name(model, None, f"{gpus}x{nodes}")
        for model, gpus, nodes in zip(
            table.texts(f"{role}model"),
            table.wholes(f"{role}gpus"),
            table.wholes(f"{role}nodes"),
            strict=True,
        )
    ]


def _solos(table: Table) -> SoloProfiles:
    """The batch is not published, so that only samples a second are known."""
    with told_at(table.place):
        return solo_profiles(
            source=SOURCE,
            gpu_type=GPU_TYPE,
            profile=_profiles(table, ""),
            model=list(table.texts("model")),
            batch=np.zeros(len(table), dtype=np.int64),
            gpus=table.wholes("gpus"),
            nodes=table.wholes("nodes"),
            samples_per_s=table.numbers("samples_per_s"),
        )
