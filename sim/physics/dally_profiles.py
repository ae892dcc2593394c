"""The six models of Dally's evaluation as profiles.

Volumes are sums over the profile files of the authors' simulator (Sharma et al., arXiv 2401.16492),
compute times those files' times its scale of each model. What matters is bytes per compute second.
Of BERT-large's 145 layers 66 communicate.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import LayeredCatalogue
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.topology.topology import Topology


class _Model(NamedTuple):
    name: str  # "model/batch"
    layers: int  # that send gradients
    sync_mb: float  # gradients an iteration
    compute_ms: float  # an iteration


_MODELS = (
    _Model("alexnet/512", 8, 244.0, 1.21),
    _Model("vgg11/256", 11, 531.0, 3.84),
    _Model("resnet18/512", 21, 46.7, 0.18),
    _Model("resnet50/512", 54, 102.0, 11.8),
    _Model("mobilenet_v3/512", 52, 9.9, 0.063),
    _Model("bert_large/256", 66, 562.0, 1.71),
)
BYTES_PER_MB, SECONDS_PER_MS = 1e6, 1e-3


class DallyProfiles(LayeredCatalogue):
    """The six models, equally fast on every GPU type: the authors simulate one type."""

    def __init__(self, *, gpu_types: Sequence[str]) -> None:
        """`gpu_types`: names of the cluster's GPU types.

        Raises:
            PhysicsError: there is none.
        """
        if not gpu_types:
            raise PhysicsError("profiles.gpu_types is empty; name the GPU types of the cluster")
        compute_s = SECONDS_PER_MS * np.array([model.compute_ms for model in _MODELS])
        super().__init__(
            names=tuple(model.name for model in _MODELS),
            gpu_types=tuple(gpu_types),
            compute_s=np.repeat(compute_s[:, None], len(gpu_types), axis=1),
            sync_bytes=BYTES_PER_MB * np.array([model.sync_mb for model in _MODELS]),
            gang_ok=np.ones(len(_MODELS), dtype=np.bool_),
            source="dally",
            layers=np.array([model.layers for model in _MODELS], dtype=np.int64),
        )


def compute_share(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) compute over step on the most compact placement, reference type.

    Args:
        gangs: numbers of GPUs that jobs may hold; N is the largest.
        topology: the cluster.
        physics: over it.
    """
    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    share: FloatArray = compute_s / reference_steps_s(gangs, topology, physics)
    return share
