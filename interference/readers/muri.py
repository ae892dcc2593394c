"""Muri's stage times of eight models on 1 to 32 V100s, each job alone."""

from pathlib import Path

from interference.readers.profile_names import profile_name
from interference.readers.solo_columns import solo_profiles
from interference.readers.table import file_of, read_table, told_at
from interference.rows import SoloProfiles

SOURCE = "muri"
GPU_TYPE = "v100"
STAGES = "throughput/muri_stage_profile.csv"
COLUMNS = ("model", "batch_size", "num_gpus", "iteration_ms", "storage_cpu_ms", "gpu_ms",
           "network_ms")  # fmt: skip
MS = 1e-3


def solos_of_muri(folder: Path | str) -> SoloProfiles:
    """Stage times; `load_s` holds loading and preprocessing together, as the source does."""
    table = read_table(file_of(folder, STAGES), COLUMNS)
    batch, gpus = table.wholes("batch_size"), table.wholes("num_gpus")
    with told_at(table.place):
        return solo_profiles(
            source=SOURCE,
            gpu_type=GPU_TYPE,
            profile=[
                profile_name(model, int(size), f"{g}gpus" if g > 1 else "")
                for model, size, g in zip(table.texts("model"), batch, gpus, strict=True)
            ],
            model=list(table.texts("model")),
            batch=batch,
            gpus=gpus,
            nodes=(gpus == 1).astype("int64"),  # of gangs not known
            step_s=table.numbers("iteration_ms") * MS,
            load_s=table.numbers("storage_cpu_ms") * MS,
            compute_s=table.numbers("gpu_ms") * MS,
            sync_s=table.numbers("network_ms") * MS,
        )
