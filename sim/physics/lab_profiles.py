"""The eight training jobs that the lab of Zhao and Wu measured, as profiles.

The table is published with the code of DL2 (Peng et al., "DL2", IEEE TPDS 2021) and was used for
Optimus and Harmony too: servers of two GPUs, 6 Gbps between servers and 30 Gbps inside, one worker
and its parameter server on two servers, on one, or training without either. Its figures stand in
`conf/profiles/lab.yaml`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue

PARAMETER_SERVER, ALL_REDUCE = "ps", "ring"
ARCHITECTURES = (PARAMETER_SERVER, ALL_REDUCE)
SIZES, SPEEDS = "sizes", "speeds"
VOLUMES = (SIZES, SPEEDS)
BYTES_PER_MB, BYTES_PER_GBIT = 1e6, 1e9 / 8.0


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
        for key, value in vars(self).items():
            if not 0.0 < value < np.inf:
                raise PhysicsError(f"profiles {key} is {value}; it must be above 0")

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
        self,
        *,
        gpu_types: Sequence[str],
        models: Mapping[str, LabModel],
        volumes: str,
        nic_gbps: float,
    ) -> None:
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
        if not 0.0 < nic_gbps < np.inf:
            raise PhysicsError(f"profiles.nic_gbps is {nic_gbps}; it must be above 0")
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
