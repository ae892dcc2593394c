"""What a workload must know around it: the experiment, kinds of windows, which jobs count.

Also the checks of its single options, of which None means that one is not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.arrays import IntArray
from sim.errors import TraceError, check_numbers, nearest
from sim.physics.catalogue import Catalogue
from sim.protocols import DurationEstimator
from sim.topology.topology import Topology


def check_count(key: str, value: object) -> None:
    """Raise a TraceError unless `value` is None or a whole number of 1 or more."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(
            f"workload.{key} is {value!r}; it must be null or a whole number, 1 or more"
        )


def check_choice(key: str, value: object, known: Sequence[str]) -> None:
    """Raise a TraceError unless `value` is one of the words `known`."""
    if value not in known:
        raise TraceError(
            f"workload.{key} is {value!r}{nearest(str(value), known)}; known are {', '.join(known)}"
        )


@dataclass(frozen=True, kw_only=True)
class Owners:
    """How virtual clusters find their partitions."""

    partition_gpus: IntArray  # (M,)
    of_group: Mapping[str, int]  # a group of servers -> its partition

    @classmethod
    def of(cls, topology: Topology, partition_of_server: IntArray) -> "Owners":
        """Those of a cluster's servers (S,)."""
        gpus = np.bincount(partition_of_server, weights=topology.gpus_per_server)
        names = [] if topology.server_group is None else topology.server_group.tolist()
        of_group = dict(zip(names, partition_of_server.tolist(), strict=False))
        return cls(partition_gpus=gpus.astype(np.int64), of_group=of_group)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Cluster, partitions, profiles and predictor that jobs are prepared for."""

    gpus: int  # capacity of the cluster
    partitions: int  # partitions at which jobs arrive
    skew: float  # partition p receives a share proportional to (p + 1) ** -skew
    owners: Owners | None = None  # jobs arrive at the partition of their virtual cluster
    catalogue: Catalogue
    estimator: DurationEstimator
    gpu_types: tuple[str, ...] = ()  # of the topology; () where no job asks for a type
    # Plain name of a GPU type -> that of the type of which it is another name (`gpu_table`).
    also: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        if self.gpus < 1:
            raise TraceError(f"the cluster has {self.gpus} GPUs; it needs at least 1")
        if self.partitions < 1:
            raise TraceError(f"agents.count is {self.partitions}; it must be at least 1")
        check_numbers("agents", "0 or more", TraceError, skew=self.skew)


RANDOM, DISJOINT, AUTO = KINDS = ("random", "disjoint", "auto")


def check_windows_from(value: str) -> None:
    """Raise a TraceError unless `value` is a kind of windows."""
    check_choice("windows_from", value, KINDS)


def check_drawn_windows(value: str) -> None:
    """Raise a TraceError unless `value` suits jobs that are drawn anew for every window."""
    check_windows_from(value)
    if value == DISJOINT:
        raise TraceError(
            "workload.windows_from is 'disjoint', which cuts a trace file; windows of this "
            "workload are drawn anew and share no job, use random or auto"
        )
