"""Training jobs that others published, as profiles: Dally's, the lab of Zhao and Wu's, York's.

The six models of Dally's evaluation as profiles.

Volumes are sums over the profile files of the authors' simulator (Sharma et al., arXiv 2401.16492),
compute times those files' times its scale of each model. What matters is bytes per compute second.
Of BERT-large's 145 layers 66 communicate.

The eight training jobs that the lab of Zhao and Wu measured, as profiles.

The table is published with the code of DL2 (Peng et al., "DL2", IEEE TPDS 2021) and was used for
Optimus and Harmony too: servers of two GPUs, 6 Gbps between servers and 30 Gbps inside, one worker
and its parameter server on two servers, on one, or training without either. Its figures stand in
`conf/profiles/lab.yaml`.

The speed model of York University's schedulers as profiles: one row a model, batch and gang.

TopDRL (Ayadi et al., JPDC 204:105138, 2025) and Proximity-DRL (Deng et al., Canadian AI 2024) come
from one group, whose published code computes an iteration of g GPUs as

    d / TFLOPS + sync,   d = batch * GFLOP of a sample / 1000 [TFLOP a GPU],
    sync = sqrt(g) * (28.29 ms at 100 MB, 139.77 ms at 500 MB, linear between and beyond, 0 at 0)

and counts progress in TFLOP/s, g * d an iteration. The all-reduce term is charged to a single GPU
too, as there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError, check_numbers
from sim.physics.catalogue import Catalogue, GangCatalogue, LayeredCatalogue
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.topology.topology import Topology


class _Model(NamedTuple):
    name: str  # "model/batch"
    layers: int  # that send gradients
    sync_mb: float  # gradients an iteration
    compute_ms: float  # an iteration


_MODELS = (
    _Model("alexnet/512", 8, 244.0, 1.21), _Model("vgg11/256", 11, 531.0, 3.84),
    _Model("resnet18/512", 21, 46.7, 0.18), _Model("resnet50/512", 54, 102.0, 11.8),
    _Model("mobilenet_v3/512", 52, 9.9, 0.063), _Model("bert_large/256", 66, 562.0, 1.71),
)  # fmt: skip
BYTES_PER_MB, SECONDS_PER_MS = 1e6, 1e-3


class DallyProfiles(LayeredCatalogue):
    """The six models, equally fast on every GPU type: the authors simulate one type."""

    def __init__(self, *, gpu_types: Sequence[str]) -> None:
        """`gpu_types`: names of the cluster's GPU types; a PhysicsError without one."""
        if not gpu_types:
            raise PhysicsError("profiles.gpu_types is empty; name the GPU types of the cluster")
        compute_s = SECONDS_PER_MS * np.array([model.compute_ms for model in _MODELS])
        super().__init__(
            names=tuple(model.name for model in _MODELS), gpu_types=tuple(gpu_types),
            compute_s=np.repeat(compute_s[:, None], len(gpu_types), axis=1),
            sync_bytes=BYTES_PER_MB * np.array([model.sync_mb for model in _MODELS]),
            gang_ok=np.ones(len(_MODELS), dtype=np.bool_), source="dally",
            layers=np.array([model.layers for model in _MODELS], dtype=np.int64),
        )  # fmt: skip


def compute_share(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) compute over step on the most compact placement of N GPUs, the most of `gangs`."""
    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    return compute_s / reference_steps_s(gangs, topology, physics)


PARAMETER_SERVER, ALL_REDUCE = "ps", "ring"
ARCHITECTURES = (PARAMETER_SERVER, ALL_REDUCE)
SIZES, SPEEDS = "sizes", "speeds"
VOLUMES = (SIZES, SPEEDS)
BYTES_PER_GBIT = 1e9 / 8.0


@dataclass(frozen=True, kw_only=True)
class LabModel:
    """One row of the table; speeds are in samples a second."""

    size_mb: float  # of the model
    batch: int
    compute_s: float  # of one batch
    apart: float  # worker and parameter server on two servers
    together: float  # on one
    local: float  # without a parameter server

    def __post_init__(self) -> None:
        """Check ranges; PhysicsError names the key, the value and the rule."""
        check_numbers("profiles", "above 0", PhysicsError, **vars(self))

    def exchanged_bytes(self, volumes: str, nic_gbps: float) -> float:
        """Gradient bytes of an iteration: the model's size, or what its speed apart amounts to."""
        if volumes == SIZES:
            return BYTES_PER_MB * self.size_mb
        return max(0.0, self.batch / self.apart - self.compute_s) * nic_gbps * BYTES_PER_GBIT


class LabProfiles(Catalogue):
    """Every model twice: with parameter servers ("NAME ps/BATCH") and all-reduce ("NAME ring/...").

    So of jobs that draw a row uniformly half are of each kind. What the two send is for the
    network to say (`conf/network/lab.yaml`).
    """

    def __init__(
        self, *, gpu_types: Sequence[str], models: Mapping[str, LabModel], volumes: str,
        nic_gbps: float,
    ) -> None:  # fmt: skip
        """Make all rows, equally fast on every GPU type named.

        Args:
            gpu_types: names of the cluster's GPU types.
            models: name -> figures.
            volumes: `sizes`: an iteration exchanges the model. `speeds`: as many bytes as make two
                workers on two servers as fast as the table's column `apart`.
            nic_gbps: rate between the servers on which `apart` was measured.

        Raises:
            PhysicsError: naming the key, the value and the rule.
        """
        if not gpu_types or not models:
            raise PhysicsError("profiles: gpu_types or models is empty; name at least one")
        if volumes not in VOLUMES:
            raise PhysicsError(f"profiles.volumes is {volumes!r}; use {' or '.join(VOLUMES)}")
        check_numbers("profiles", "above 0", PhysicsError, nic_gbps=nic_gbps)
        rows = list(product(models.items(), ARCHITECTURES))
        compute_s = np.array([model.compute_s for (_, model), _ in rows])
        super().__init__(
            names=tuple(f"{name} {kind}/{model.batch}" for (name, model), kind in rows),
            gpu_types=tuple(gpu_types),
            compute_s=np.repeat(compute_s[:, None], len(gpu_types), axis=1),
            sync_bytes=np.array(
                [model.exchanged_bytes(volumes, nic_gbps) for (_, model), _ in rows]
            ),
            gang_ok=np.ones(len(rows), dtype=np.bool_),
            source="lab",
        )


SYNC_MB = (0.0, 100.0, 500.0)  # gradient sizes at which the group states its all-reduce time
SYNC_MS = (0.0, 28.29, 139.77)  # for one GPU; sqrt(g) times that for g
GFLOP_PER_TFLOP, MS_PER_S = 1e3, 1e3


class YorkProfiles(GangCatalogue):
    """Models x batches x gangs of 1 to `most_gpus`, equally fast on every GPU type named."""

    def __init__(
        self,
        *,
        gpu_types: Sequence[str],  # names of the cluster's GPU types
        tflops: float,  # TFLOP/s of one GPU
        most_gpus: int,  # the largest gang that has rows
        batches: Sequence[int],  # samples a GPU and iteration
        # Name -> `param_mb` (gradients, MB) and `gflops` (GFLOP a sample).
        models: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Make all rows; PhysicsError names key, value and rule."""
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
            sync_bytes=BYTES_PER_MB * param_mb, gang_ok=np.ones(len(rows), dtype=np.bool_),
            source="york", gang=gang, sync_s=sync_s(param_mb) * np.sqrt(gang),
            tflop=gang * share_tflop,
        )  # fmt: skip


def sync_s(param_mb: FloatArray) -> FloatArray:
    """Seconds of all-reduce charged to one GPU; g GPUs take sqrt(g) times as long."""
    ms = np.interp(param_mb, SYNC_MB, SYNC_MS)
    slope = (SYNC_MS[2] - SYNC_MS[1]) / (SYNC_MB[2] - SYNC_MB[1])
    beyond = np.maximum(np.asarray(param_mb) - SYNC_MB[2], 0.0)
    return np.asarray((ms + slope * beyond) / MS_PER_S)


def _check(
    gpu_types: Sequence[str], tflops: float, most_gpus: int, batches: Sequence[int],
    models: Mapping[str, Mapping[str, float]],
) -> None:  # fmt: skip
    if not gpu_types or not models or not batches:
        raise PhysicsError("profiles: gpu_types, models or batches is empty; name at least one")
    numbers = {"tflops": tflops, "most_gpus": most_gpus, "batches": min(batches)}
    check_numbers("profiles", "above 0", PhysicsError, **numbers)
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
