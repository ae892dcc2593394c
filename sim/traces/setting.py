"""What a workload must know of the experiment around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.errors import TraceError
from sim.physics.catalogue import Catalogue

if TYPE_CHECKING:
    from sim.protocols import DurationEstimator


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Cluster, partitions, profiles and predictor that jobs are prepared for."""

    gpus: int  # capacity of the cluster
    partitions: int  # partitions at which jobs arrive
    skew: float  # partition p receives a share proportional to (p + 1) ** -skew
    catalogue: Catalogue
    estimator: DurationEstimator
    gpu_types: tuple[str, ...] = ()  # of the topology; () where no job asks for a type

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the value.
        """
        if self.gpus < 1:
            raise TraceError(f"the cluster has {self.gpus} GPUs; it needs at least 1")
        if self.partitions < 1:
            raise TraceError(f"agents.count is {self.partitions}; it must be at least 1")
        if not (math.isfinite(self.skew) and self.skew >= 0):
            raise TraceError(f"agents.skew is {self.skew}; it must be a finite number, 0 or more")
