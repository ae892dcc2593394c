"""Published pairs: Gavel's on K80, P100 and V100, Lucid's on an RTX 3090, DeepShare's on links.

Each with what its source tells of single jobs. The gpu_util, gmem_util and gmem of Lucid's pairs
were measured while two jobs ran: they are outcomes, and are not read. All features come from the
single runs.
"""

from collections.abc import Callable
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
    measured_once,
    pair_numbers,
    profile_name,
    read_table,
)
from interference.rows import CoRows, SoloProfiles, check_profiled, co_rows, solo_profiles
from sim.arrays import BoolArray, TextArray, objects


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published set of pairs, and what its source tells of single jobs."""

    source: str
    gpu_type: str | None  # of all rows; None: a column tells it
    sharing: str = "gpu"
    pairs: str  # file below the folder of measurements
    columns: tuple[str, ...]  # of it; it may have `split` too
    speeds: tuple[str, ...]  # its columns of speeds, by side
    models: tuple[str, str]  # its columns of models
    sides: Callable[[Table], Sides]
    alone: str  # file of the runs alone
    alone_columns: tuple[str, ...]  # of it
    solos: Callable[[Table], SoloProfiles]

    def read(self, folder: Path | str, *, pairs: Path | None = None) -> tuple[CoRows, SoloProfiles]:
        """The sides of the pairs as rows, and a solo profile of each of their jobs.

        `folder` has the runs alone, and the pairs unless `pairs` is given.

        Raises:
            PhysicsError: naming file, line, column, value and fix.
        """
        alone = file_of(folder, self.alone)
        solos = self.solos(read_table(alone, self.alone_columns))
        table = read_table(pairs or file_of(folder, self.pairs), self.columns, ("split",))
        split, gpu_type = (
            table.texts("split"), table.texts("gpu_type", absent=self.gpu_type or "")
        )  # fmt: skip
        sides = measured_once(self.sides(table), gpu_type, split)
        line = sides.line
        own = {"norm_speed": self.speeds, "victim": self.models, "aggressors": self.models[::-1]}
        words = in_the_file(sides, own, alone)
        with faults_at(lambda row: table.place(int(line[row])), words):
            rows = co_rows(
                source=self.source, gpu_type=gpu_type[line], sharing=self.sharing,
                group=pair_numbers(sides, gpu_type, split), split=split[line], victim=sides.victim,
                aggressors=[(name,) for name in sides.aggressor], norm_speed=sides.norm_speed,
                feasible=table.flags("feasible", absent=True)[line], measured=sides.measured,
            )  # fmt: skip
            check_profiled(rows, solos)
        return rows, solos


def _gavel_sides(table: Table) -> Sides:
    """Both sides of each pair; a profile beside itself is one row: its sides are one number.

    V100 speeds are cut at 1 in the source, and a pair that is not feasible either did not fit or
    was not run. An empty batch is 0, which the runs alone have for models without one.
    """
    a, b = (_gavel_profiles(table, f"model_{side}", f"batch_{side}") for side in "ab")
    measured = np.ones(len(table), dtype=np.bool_)
    sides = both_sides(
        profiles=(a, b),
        speeds=(table.numbers("norm_a"), table.numbers("norm_b")),
        measured=(measured, measured),
    )
    keep = np.ones(len(sides.line), dtype=np.bool_)
    keep[1::2] = [name != other for name, other in zip(a, b, strict=True)]
    return sides.take(keep)


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
            source="gavel",
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


GAVEL_PAIRS = "colocation/gavel_pairs.csv"
GAVEL_ISOLATED = "throughput/gavel_isolated.csv"
GAVEL_ISOLATED_COLUMNS = (
    "gpu_type", "consolidated", "model", "batch_size", "num_gpus", "steps_per_s",
)  # fmt: skip
GAVEL = Published(
    source="gavel",
    gpu_type=None,
    pairs=GAVEL_PAIRS,
    columns=("gpu_type", "model_a", "batch_a", "model_b", "batch_b", "norm_a", "norm_b",
             "feasible"),
    speeds=("norm_a", "norm_b"),
    models=("model_a", "model_b"),
    sides=_gavel_sides,
    alone=GAVEL_ISOLATED,
    alone_columns=GAVEL_ISOLATED_COLUMNS,
    solos=_gavel_solos,
)  # fmt: skip

SET_TO_ONE = ("PPO", "TD3")  # their speeds are 1 throughout, a convention of the source
LUCID_GPU = "rtx3090"


def _lucid_sides(table: Table) -> Sides:
    """Both sides of each pair; not `measured` are victims whose speed the source set to 1."""
    return both_sides(
        profiles=(_lucid_profiles(table, "1"), _lucid_profiles(table, "2")),
        speeds=(table.numbers("norm_1"), table.numbers("norm_2")),
        measured=(_measured(table.texts("model1")), _measured(table.texts("model2"))),
    )


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
            source="lucid",
            gpu_type=LUCID_GPU,
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


LUCID = Published(
    source="lucid",
    gpu_type=LUCID_GPU,
    pairs="colocation/lucid_pairs.csv",
    columns=("model1", "batchsize1", "amp1", "norm_1", "model2", "batchsize2", "amp2", "norm_2"),
    speeds=("norm_1", "norm_2"),
    models=("model1", "model2"),
    sides=_lucid_sides,
    alone="throughput/lucid_single.csv",
    alone_columns=("model", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem"),
    solos=_lucid_solos,
)

DEEPSHARE_GPU = "unknown"  # the publication's files do not name it


def _deepshare_sides(table: Table) -> Sides:
    """One row a directed line; the two directions of a pair are one group."""
    n = len(table)
    return Sides(
        line=np.arange(n),
        side=np.zeros(n, dtype=np.int64),
        victim=objects(_deepshare_profiles(table, "")),
        aggressor=objects(_deepshare_profiles(table, "other_")),
        norm_speed=table.numbers("norm"),
        measured=np.ones(n, dtype=np.bool_),
    )


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
            source="deepshare",
            gpu_type=DEEPSHARE_GPU,
            profile=_deepshare_profiles(table, ""),
            model=list(table.texts("model")),
            batch=0,
            gpus=table.wholes("gpus"),
            nodes=table.wholes("nodes"),
            samples_per_s=table.numbers("samples_per_s"),
        )


DEEPSHARE = Published(
    source="deepshare",
    gpu_type=DEEPSHARE_GPU,
    sharing="network",
    pairs="colocation/deepshare_network_pairs.csv",
    columns=("model", "gpus", "nodes", "other_model", "other_gpus", "other_nodes", "norm"),
    speeds=("norm",),
    models=("model", "other_model"),
    sides=_deepshare_sides,
    alone="throughput/deepshare_isolated.csv",
    alone_columns=("model", "gpus", "nodes", "samples_per_s"),
    solos=_deepshare_solos,
)

PUBLISHED = (GAVEL, LUCID, DEEPSHARE)
