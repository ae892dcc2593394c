"""Gavel's pairs on K80, P100 and V100, and its isolated speeds."""

from pathlib import Path

import numpy as np

from interference.readers.columns import (
    both_sides,
    co_rows_of,
    in_the_file,
    profile_name,
    solo_profiles,
)
from interference.readers.table import Table, file_of, read_table, told_at
from interference.rows import CoRows, SoloProfiles, check_profiled

SOURCE = "gavel"
PAIRS = "colocation/gavel_pairs.csv"
ISOLATED = "throughput/gavel_isolated.csv"
PAIR_COLUMNS = ("gpu_type", "model_a", "batch_a", "model_b", "batch_b", "norm_a", "norm_b",
                "feasible")  # fmt: skip
OWN_NAMES = {
    "norm_speed": ("norm_a", "norm_b"),
    "victim": ("model_a", "model_b"),
    "aggressors": ("model_b", "model_a"),
}
ISOLATED_COLUMNS = ("gpu_type", "consolidated", "model", "batch_size", "num_gpus", "steps_per_s")


def rows_of_gavel(folder: Path | str, *, pairs: Path | None = None) -> tuple[CoRows, SoloProfiles]:
    """Both sides of each pair; a profile beside itself is one row, since its sides are one number.

    V100 speeds are cut at 1 in the source, and a pair that is not feasible either did not fit or
    was not run. An empty batch is 0, which the runs alone have for models without one.

    Args:
        folder: has the runs alone, and the pairs unless `pairs` is given.
        pairs: another file with the columns of `PAIRS`.
    """
    alone = file_of(folder, ISOLATED)
    solos = _solos(read_table(alone, ISOLATED_COLUMNS))
    table = read_table(pairs or file_of(folder, PAIRS), PAIR_COLUMNS, ("split",))
    a, b = (_profiles(table, f"model_{side}", f"batch_{side}") for side in "ab")
    measured = np.ones(len(table), dtype=np.bool_)
    sides = both_sides(
        profiles=(a, b),
        speeds=(table.numbers("norm_a"), table.numbers("norm_b")),
        measured=(measured, measured),
    )
    second_of_itself = np.array([name == other for name, other in zip(a, b, strict=True)])
    keep = np.ones(len(sides.line), dtype=np.bool_)
    keep[1::2] = ~second_of_itself
    sides = sides.take(keep)
    with told_at(
        lambda row: table.place(int(sides.line[row])), in_the_file(sides, OWN_NAMES, alone)
    ):
        rows = co_rows_of(
            sides,
            source=SOURCE,
            gpu_type=list(table.texts("gpu_type")),
            sharing="gpu",
            split=table.texts("split"),
            feasible=table.flags("feasible", absent=True),
        )
        check_profiled(rows, solos)
    return rows, solos


def _profiles(table: Table, model: str, batch: str) -> list[str]:
    return [
        profile_name(name, int(size))
        for name, size in zip(table.texts(model), table.wholes(batch, empty=0), strict=True)
    ]


def _solos(table: Table) -> SoloProfiles:
    """Single-GPU runs and gangs; a job that never ran (0 steps a second) is left out."""
    gpus, speed = table.wholes("num_gpus"), table.numbers("steps_per_s")
    one_server = table.flags("consolidated", absent=True)
    # A single GPU is told twice, once a value of `consolidated`.
    keep = np.flatnonzero((speed != 0.0) & (one_server | (gpus > 1)))
    batch, model, gpu_type = (
        table.wholes("batch_size")[keep],
        table.texts("model")[keep],
        table.texts("gpu_type")[keep],
    )
    gpus, one_server = gpus[keep], one_server[keep]
    with told_at(lambda row: table.place(int(keep[row]))):
        return solo_profiles(
            source=SOURCE,
            gpu_type=list(gpu_type),
            profile=[
                profile_name(name, int(size), _gang(int(g), bool(one)))
                for name, size, g, one in zip(model, batch, gpus, one_server, strict=True)
            ],
            model=list(model),
            batch=batch,
            gpus=gpus,
            nodes=np.where(one_server, 1, 0),
            step_s=1.0 / speed[keep],
        )


def _gang(gpus: int, one_server: bool) -> str:
    if gpus == 1:
        return ""
    return f"{gpus}x1" if one_server else f"{gpus}spread"
