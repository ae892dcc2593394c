"""Alnair's 49 single-job runs on a P100 with the use they made of it."""

from pathlib import Path

from interference.readers.profile_names import profile_name
from interference.readers.solo_columns import solo_profiles
from interference.readers.table import file_of, read_table, told_at
from interference.rows import SoloProfiles

SOURCE = "alnair"
GPU_TYPE = "p100"
RUNS = "throughput/alnair_p100_utilisation.csv"
GPU_PEAK, MEMORY_PEAK = "MGUP", "MaGTSAMP"  # highest GPU and memory-access utilisation, percent


def solos_of_alnair(folder: Path | str) -> SoloProfiles:
    """Peak utilisation of each run: the source has highest and lowest values, no mean.

    Step times are not published, and memory only as a share of what the framework took.
    """
    table = read_table(file_of(folder, RUNS), ("Model", "BS", GPU_PEAK, MEMORY_PEAK))
    model = ["/".join(part.strip() for part in name.split("/")) for name in table.texts("Model")]
    batch = table.wholes("BS")
    with told_at(table.place):
        return solo_profiles(
            source=SOURCE,
            gpu_type=GPU_TYPE,
            profile=[
                profile_name(name, int(size)) for name, size in zip(model, batch, strict=True)
            ],
            model=model,
            batch=batch,
            gpu_util=table.numbers(GPU_PEAK) / 100.0,
            gmem_util=table.numbers(MEMORY_PEAK) / 100.0,
        )
