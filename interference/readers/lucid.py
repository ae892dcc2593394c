"""Lucid's pairs on an RTX 3090, and its profiles of single jobs.

The pairs' gpu_util, gmem_util and gmem were measured while two jobs ran: they are outcomes, and are
not read. All features come from the single runs.
"""

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
from sim.arrays import BoolArray, TextArray

SOURCE = "lucid"
GPU_TYPE = "rtx3090"
PAIRS = "colocation/lucid_pairs.csv"
SINGLE = "throughput/lucid_single.csv"
PAIR_COLUMNS = ("model1", "batchsize1", "amp1", "norm_1", "model2", "batchsize2", "amp2", "norm_2")
OWN_NAMES = {
    "norm_speed": ("norm_1", "norm_2"),
    "victim": ("model1", "model2"),
    "aggressors": ("model2", "model1"),
}
SINGLE_COLUMNS = ("model", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem")
SET_TO_ONE = ("PPO", "TD3")  # their speeds are 1 throughout, a convention of the source


def rows_of_lucid(folder: Path | str, *, pairs: Path | None = None) -> tuple[CoRows, SoloProfiles]:
    """Both sides of each pair; `measured` is false for victims whose speed the source set to 1.

    Args:
        folder: has the single runs, and the pairs unless `pairs` is given.
        pairs: another file with the columns of `PAIRS`.
    """
    alone = file_of(folder, SINGLE)
    solos = _solos(read_table(alone, SINGLE_COLUMNS))
    table = read_table(pairs or file_of(folder, PAIRS), PAIR_COLUMNS, ("split",))
    sides = both_sides(
        profiles=(_profiles(table, "1"), _profiles(table, "2")),
        speeds=(table.numbers("norm_1"), table.numbers("norm_2")),
        measured=(_measured(table.texts("model1")), _measured(table.texts("model2"))),
    )
    n = len(table)
    with told_at(
        lambda row: table.place(int(sides.line[row])), in_the_file(sides, OWN_NAMES, alone)
    ):
        rows = co_rows_of(
            sides,
            source=SOURCE,
            gpu_type=[GPU_TYPE] * n,
            sharing="gpu",
            split=table.texts("split"),
            feasible=np.ones(n, dtype=np.bool_),
        )
        check_profiled(rows, solos)
    return rows, solos


def _measured(models: TextArray) -> BoolArray:
    return np.array([model not in SET_TO_ONE for model in models], dtype=np.bool_)


def _profiles(table: Table, side: str) -> list[str]:
    return [
        profile_name(model, int(batch), "amp" if amp else "")
        for model, batch, amp in zip(
            table.texts(f"model{side}"),
            table.wholes(f"batchsize{side}"),
            table.flags(f"amp{side}", absent=False),
            strict=True,
        )
    ]


def _solos(table: Table) -> SoloProfiles:
    speed, batch = table.numbers("speed"), table.wholes("batchsize")
    with told_at(table.place):
        return solo_profiles(
            source=SOURCE,
            gpu_type=GPU_TYPE,
            profile=_profiles(table, ""),
            model=list(table.texts("model")),
            batch=batch,
            amp=table.flags("amp", absent=False),
            step_s=batch / speed,
            samples_per_s=speed,
            gpu_util=table.numbers("gpu_util") / 100.0,
            gmem_util=table.numbers("gmem_util") / 100.0,
            gmem_mib=table.numbers("gmem"),
        )
