"""The speed model of York University's schedulers as profiles: one row a model, batch and gang.

TopDRL (Ayadi et al., JPDC 204:105138, 2025) and Proximity-DRL (Deng et al., Canadian AI 2024) come
from one group, whose published code computes an iteration of g GPUs as

    d / TFLOPS + sync,   d = batch * GFLOP of a sample / 1000 [TFLOP a GPU],
    sync = sqrt(g) * (28.29 ms at 100 MB, 139.77 ms at 500 MB, linear between and beyond, 0 at 0)

and counts progress in TFLOP/s, g * d an iteration. The all-reduce term is charged to a single GPU
too, as there.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from sim.arrays import FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import GangCatalogue

SYNC_MB = (0.0, 100.0, 500.0)  # gradient sizes at which the group states its all-reduce time
SYNC_MS = (0.0, 28.29, 139.77)  # for one GPU; sqrt(g) times that for g
BYTES_PER_MB, GFLOP_PER_TFLOP, MS_PER_S = 1e6, 1e3, 1e3


class YorkProfiles(GangCatalogue):
    """Models x batches x gangs of 1 to `most_gpus`, equally fast on every GPU type named."""

    def __init__(
        self,
        *,
        gpu_types: Sequence[str],
        tflops: float,
        most_gpus: int,
        batches: Sequence[int],
        models: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Make all rows.

        Args:
            gpu_types: names of the cluster's GPU types.
            tflops: TFLOP/s of one GPU.
            most_gpus: the largest gang that has rows.
            batches: samples a GPU and iteration.
            models: name -> `param_mb` (gradients, MB) and `gflops` (GFLOP a sample).

        Raises:
            PhysicsError: naming the key, the value and the rule.
        """
        _check(gpu_types, tflops, most_gpus, batches, models)
        rows = list(product(models, batches, range(1, most_gpus + 1)))
        gang = np.array([g for _, _, g in rows], dtype=np.int64)
        param_mb = np.array([float(models[name]["param_mb"]) for name, _, _ in rows])
        share_tflop = np.array(
            [batch * float(models[name]["gflops"]) / GFLOP_PER_TFLOP for name, batch, _ in rows]
        )
        super().__init__(
            names=tuple(f"{name} x{g}/{batch}" for name, batch, g in rows),
            gpu_types=tuple(gpu_types),
            compute_s=np.repeat((share_tflop / tflops)[:, None], len(gpu_types), axis=1),
            sync_bytes=BYTES_PER_MB * param_mb,
            gang_ok=np.ones(len(rows), dtype=np.bool_),
            source="york",
            gang=gang,
            sync_s=sync_s(param_mb) * np.sqrt(gang),
            tflop=gang * share_tflop,
        )


def sync_s(param_mb: FloatArray) -> FloatArray:
    """Seconds of all-reduce charged to one GPU; g GPUs take sqrt(g) times as long."""
    ms = np.interp(param_mb, SYNC_MB, SYNC_MS)
    slope = (SYNC_MS[2] - SYNC_MS[1]) / (SYNC_MB[2] - SYNC_MB[1])
    beyond = np.maximum(np.asarray(param_mb) - SYNC_MB[2], 0.0)
    return np.asarray((ms + slope * beyond) / MS_PER_S)


def _check(
    gpu_types: Sequence[str],
    tflops: float,
    most_gpus: int,
    batches: Sequence[int],
    models: Mapping[str, Mapping[str, float]],
) -> None:
    if not gpu_types or not models or not batches:
        raise PhysicsError("profiles: gpu_types, models or batches is empty; name at least one")
    for key, value, good in (
        ("tflops", tflops, 0 < tflops < np.inf),
        ("most_gpus", most_gpus, most_gpus >= 1),
        ("batches", list(batches), min(batches) >= 1),
    ):
        if not good:
            raise PhysicsError(f"profiles.{key} is {value}; it must be above 0")
    for name, model in models.items():
        if set(model) != {"param_mb", "gflops"}:
            raise PhysicsError(
                f"profiles.models.{name} has {', '.join(model)}; it needs param_mb and gflops"
            )
        if not (model["param_mb"] >= 0 and 0 < model["gflops"] < np.inf):
            raise PhysicsError(
                f"profiles.models.{name} is {dict(model)}; param_mb must be 0 or more and gflops "
                "above 0"
            )
