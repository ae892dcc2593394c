"""Solo profiles of one source from the columns that it has; the others are unknown."""

from collections.abc import Sequence

import numpy as np

from interference.rows import SOLO_TYPES, SoloProfiles, objects
from sim.arrays import BoolArray, FloatArray, IntArray

NUMBERS = tuple(name for name, kind in SOLO_TYPES.items() if kind is np.float64)


def solo_profiles(
    *,
    source: str,
    gpu_type: Sequence[str] | str,
    profile: Sequence[str],
    model: Sequence[str],
    batch: IntArray,
    gpus: IntArray | int = 1,
    nodes: IntArray | int = 1,
    amp: BoolArray | bool = False,
    **known: FloatArray,
) -> SoloProfiles:
    """One row a profile; `known` holds the columns of numbers that the source has."""
    n = len(profile)
    types = [gpu_type] * n if isinstance(gpu_type, str) else gpu_type
    return SoloProfiles(
        source=objects([source] * n),
        gpu_type=objects(types),
        profile=objects(profile),
        model=objects(model),
        batch=batch,
        amp=np.broadcast_to(amp, n).astype(np.bool_),
        gpus=np.broadcast_to(gpus, n).astype(np.int64),
        nodes=np.broadcast_to(nodes, n).astype(np.int64),
        **{name: known.get(name, np.full(n, np.nan)) for name in NUMBERS},
    )
