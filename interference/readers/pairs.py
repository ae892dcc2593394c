"""Published pairs: Gavel's on K80, P100 and V100, Lucid's on an RTX 3090, DeepShare's on links.

Each with what its source tells of single jobs. The gpu_util, gmem_util and gmem of Lucid's pairs
were measured while two jobs ran: they are outcomes, and are not read. All features come from the
single runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.readers.table import (
    Sides,
    Table,
    both_sides,
    faults_at,
    file_of,
    in_the_file,
    pair_numbers,
    profile_name,
    read_table,
)
from interference.rows import CoRows, SoloProfiles, check_profiled, co_rows, solo_profiles
from sim.arrays import BoolArray, TextArray, objects


def _checked(
    sides: Sides,
    table: Table,
    solos: SoloProfiles,
    for_faults: tuple[Mapping[str, tuple[str, str]], Path],
    *,
    source: str,
    gpu_type: Sequence[str],
    sharing: str = "gpu",
    feasible: BoolArray | None = None,
) -> CoRows:
    """The sides of a file's pairs as rows, every job of which has a solo profile.

    `for_faults` are the file's own names of columns, and the file of the runs alone, for messages.
    """
    line, split = sides.line, table.texts("split")
    with faults_at(lambda row: table.place(int(line[row])), in_the_file(sides, *for_faults)):
        rows = co_rows(
            source=source, gpu_type=objects(gpu_type)[line], sharing=sharing,
            group=pair_numbers(sides, gpu_type, split), split=split[line], victim=sides.victim,
            aggressors=[(name,) for name in sides.aggressor], norm_speed=sides.norm_speed,
            feasible=True if feasible is None else feasible[line], measured=sides.measured,
        )  # fmt: skip
        check_profiled(rows, solos)
    return rows


GAVEL_SOURCE = "gavel"
GAVEL_PAIRS = "colocation/gavel_pairs.csv"
GAVEL_ISOLATED = "throughput/gavel_isolated.csv"
GAVEL_PAIR_COLUMNS = (
    "gpu_type", "model_a", "batch_a", "model_b", "batch_b", "norm_a", "norm_b", "feasible",
)  # fmt: skip
GAVEL_OWN_NAMES = {
    "norm_speed": ("norm_a", "norm_b"),
    "victim": ("model_a", "model_b"),
    "aggressors": ("model_b", "model_a"),
}
GAVEL_ISOLATED_COLUMNS = (
    "gpu_type", "consolidated", "model", "batch_size", "num_gpus", "steps_per_s",
)  # fmt: skip


def rows_of_gavel(folder: Path | str, *, pairs: Path | None = None) -> tuple[CoRows, SoloProfiles]:
    """Both sides of each pair; a profile beside itself is one row, since its sides are one number.

    V100 speeds are cut at 1 in the source, and a pair that is not feasible either did not fit or
    was not run. An empty batch is 0, which the runs alone have for models without one. `folder` has
    the runs alone, and the pairs unless `pairs` is given.
    """
    alone = file_of(folder, GAVEL_ISOLATED)
    solos = _gavel_solos(read_table(alone, GAVEL_ISOLATED_COLUMNS))
    table = read_table(pairs or file_of(folder, GAVEL_PAIRS), GAVEL_PAIR_COLUMNS, ("split",))
    a, b = (_gavel_profiles(table, f"model_{side}", f"batch_{side}") for side in "ab")
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
    return _checked(
        sides, table, solos, (GAVEL_OWN_NAMES, alone),
        source=GAVEL_SOURCE, gpu_type=list(table.texts("gpu_type")),
        feasible=table.flags("feasible", absent=True),
    ), solos  # fmt: skip


def _gavel_profiles(table: Table, model: str, batch: str) -> list[str]:
    return [
        profile_name(name, int(size))
        for name, size in zip(table.texts(model), table.wholes(batch, empty=0), strict=True)
    ]


def _gavel_solos(table: Table) -> SoloProfiles:
    """Single-GPU runs and gangs; a job that never ran (0 steps a second) is left out."""
    gpus, speed = table.wholes("num_gpus"), table.numbers("steps_per_s")
    one_server = table.flags("consolidated", absent=True)
    # A single GPU is told twice, once a value of `consolidated`.
    keep = np.flatnonzero((speed != 0.0) & (one_server | (gpus > 1)))
    batch, model = table.wholes("batch_size")[keep], table.texts("model")[keep]
    gpus, one_server = gpus[keep], one_server[keep]
    with faults_at(lambda row: table.place(int(keep[row]))):
        return solo_profiles(
            source=GAVEL_SOURCE,
            gpu_type=list(table.texts("gpu_type")[keep]),
            profile=[
                profile_name(name, int(size), _gavel_gang(int(g), bool(one)))
                for name, size, g, one in zip(model, batch, gpus, one_server, strict=True)
            ],
            model=list(model),
            batch=batch,
            gpus=gpus,
            nodes=np.where(one_server, 1, 0),
            step_s=1.0 / speed[keep],
        )


def _gavel_gang(gpus: int, one_server: bool) -> str:
    if gpus == 1:
        return ""
    return f"{gpus}x1" if one_server else f"{gpus}spread"


LUCID_SOURCE = "lucid"
LUCID_GPU_TYPE = "rtx3090"
LUCID_PAIRS = "colocation/lucid_pairs.csv"
LUCID_SINGLE = "throughput/lucid_single.csv"
LUCID_PAIR_COLUMNS = (
    "model1", "batchsize1", "amp1", "norm_1", "model2", "batchsize2", "amp2", "norm_2",
)  # fmt: skip
LUCID_OWN_NAMES = {
    "norm_speed": ("norm_1", "norm_2"),
    "victim": ("model1", "model2"),
    "aggressors": ("model2", "model1"),
}
LUCID_SINGLE_COLUMNS = ("model", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem")
SET_TO_ONE = ("PPO", "TD3")  # their speeds are 1 throughout, a convention of the source


def rows_of_lucid(folder: Path | str, *, pairs: Path | None = None) -> tuple[CoRows, SoloProfiles]:
    """Both sides of each pair; `measured` is false for victims whose speed the source set to 1.

    `folder` has the single runs, and the pairs unless `pairs` is given.
    """
    alone = file_of(folder, LUCID_SINGLE)
    solos = _lucid_solos(read_table(alone, LUCID_SINGLE_COLUMNS))
    table = read_table(pairs or file_of(folder, LUCID_PAIRS), LUCID_PAIR_COLUMNS, ("split",))
    sides = both_sides(
        profiles=(_lucid_profiles(table, "1"), _lucid_profiles(table, "2")),
        speeds=(table.numbers("norm_1"), table.numbers("norm_2")),
        measured=(_measured(table.texts("model1")), _measured(table.texts("model2"))),
    )
    return _checked(
        sides, table, solos, (LUCID_OWN_NAMES, alone),
        source=LUCID_SOURCE, gpu_type=[LUCID_GPU_TYPE] * len(table),
    ), solos  # fmt: skip


def _measured(models: TextArray) -> BoolArray:
    return np.array([model not in SET_TO_ONE for model in models], dtype=np.bool_)


def _lucid_profiles(table: Table, side: str) -> list[str]:
    return [
        profile_name(model, int(batch), "amp" if amp else "")
        for model, batch, amp in zip(
            table.texts(f"model{side}"),
            table.wholes(f"batchsize{side}"),
            table.flags(f"amp{side}", absent=False),
            strict=True,
        )
    ]


def _lucid_solos(table: Table) -> SoloProfiles:
    speed, batch = table.numbers("speed"), table.wholes("batchsize")
    with faults_at(table.place):
        return solo_profiles(
            source=LUCID_SOURCE,
            gpu_type=LUCID_GPU_TYPE,
            profile=_lucid_profiles(table, ""),
            model=list(table.texts("model")),
            batch=batch,
            amp=table.flags("amp", absent=False),
            step_s=batch / speed,
            samples_per_s=speed,
            gpu_util=table.numbers("gpu_util") / 100.0,
            gmem_util=table.numbers("gmem_util") / 100.0,
            gmem_mib=table.numbers("gmem"),
        )


DEEPSHARE_SOURCE = "deepshare"
DEEPSHARE_GPU_TYPE = "unknown"  # the publication's files do not name it
DEEPSHARE_PAIRS = "colocation/deepshare_network_pairs.csv"
DEEPSHARE_ISOLATED = "throughput/deepshare_isolated.csv"
DEEPSHARE_PAIR_COLUMNS = (
    "model", "gpus", "nodes", "other_model", "other_gpus", "other_nodes", "norm",
)  # fmt: skip
DEEPSHARE_OWN_NAMES = {
    "norm_speed": ("norm", "norm"),
    "victim": ("model", "model"),
    "aggressors": ("other_model", "other_model"),
}
DEEPSHARE_ISOLATED_COLUMNS = ("model", "gpus", "nodes", "samples_per_s")


def rows_of_deepshare(
    folder: Path | str, *, pairs: Path | None = None
) -> tuple[CoRows, SoloProfiles]:
    """One row a directed line; the two directions of a pair are one group.

    `folder` has the runs alone, and the pairs unless `pairs` is given.
    """
    alone = file_of(folder, DEEPSHARE_ISOLATED)
    solos = _deepshare_solos(read_table(alone, DEEPSHARE_ISOLATED_COLUMNS))
    table = read_table(
        pairs or file_of(folder, DEEPSHARE_PAIRS), DEEPSHARE_PAIR_COLUMNS, ("split",)
    )
    n = len(table)
    sides = Sides(
        line=np.arange(n),
        side=np.zeros(n, dtype=np.int64),
        victim=_deepshare_profiles(table, ""),
        aggressor=_deepshare_profiles(table, "other_"),
        norm_speed=table.numbers("norm"),
        measured=np.ones(n, dtype=np.bool_),
    )
    return _checked(
        sides, table, solos, (DEEPSHARE_OWN_NAMES, alone),
        source=DEEPSHARE_SOURCE, gpu_type=[DEEPSHARE_GPU_TYPE] * n, sharing="network",
    ), solos  # fmt: skip


def _deepshare_profiles(table: Table, role: str) -> list[str]:
    return [
        profile_name(model, None, f"{gpus}x{nodes}")
        for model, gpus, nodes in zip(
            table.texts(f"{role}model"),
            table.wholes(f"{role}gpus"),
            table.wholes(f"{role}nodes"),
            strict=True,
        )
    ]


def _deepshare_solos(table: Table) -> SoloProfiles:
    """The batch is not published, so that only samples a second are known."""
    with faults_at(table.place):
        return solo_profiles(
            source=DEEPSHARE_SOURCE,
            gpu_type=DEEPSHARE_GPU_TYPE,
            profile=_deepshare_profiles(table, ""),
            model=list(table.texts("model")),
            batch=0,
            gpus=table.wholes("gpus"),
            nodes=table.wholes("nodes"),
            samples_per_s=table.numbers("samples_per_s"),
        )


@dataclass(frozen=True)
class Published:
    """One published set of pairs."""

    source: str
    pairs: str  # file below the folder of measurements
    columns: tuple[str, ...]  # of it
    alone: str  # file of what its source tells of single jobs
    read: Callable[..., tuple[CoRows, SoloProfiles]]


PUBLISHED = (
    Published(GAVEL_SOURCE, GAVEL_PAIRS, GAVEL_PAIR_COLUMNS, GAVEL_ISOLATED, rows_of_gavel),
    Published(LUCID_SOURCE, LUCID_PAIRS, LUCID_PAIR_COLUMNS, LUCID_SINGLE, rows_of_lucid),
    Published(
        DEEPSHARE_SOURCE, DEEPSHARE_PAIRS, DEEPSHARE_PAIR_COLUMNS, DEEPSHARE_ISOLATED,
        rows_of_deepshare,
    ),
)  # fmt: skip
