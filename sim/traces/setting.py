"""What a workload must know around it: the experiment, kinds of windows, which jobs count.

Also the checks of its single options, of which None means that one is not used; and the random
streams of one window, independent of each other and of every other window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays import IntArray
from sim.errors import TraceError, check_numbers, nearest
from sim.physics.catalogue import Catalogue
from sim.topology.topology import Topology

if TYPE_CHECKING:
    from sim.protocols import DurationEstimator


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


ALL = "all"  # the part that is everything
PARTS = {"train": 0, "validation": 1, "test": 2, ALL: 4}  # first entry of the parts' spawn keys
WHOLE = 3  # that of whole traces
STRETCHES = 5  # that of stretches, whatever the part


@dataclass(frozen=True)
class Streams:
    """One generator a purpose, so that a change of one draw leaves the others as they were."""

    jobs: np.random.Generator  # which jobs, or the generated jobs themselves
    profiles: np.random.Generator
    homes: np.random.Generator
    estimates: np.random.Generator


def whole_streams(*, seed: int) -> Streams:
    """The streams of a whole trace, shared with no window; TraceError if the seed is negative."""
    return _streams(seed, WHOLE, 0)


def window_streams(*, seed: int, part: str, index: int) -> Streams:
    """The streams of window `index` of `part`; equal arguments give equal streams.

    Raises:
        TraceError: if the part is unknown, or seed or index is negative.
    """
    return _streams(seed, _number(part), index)


def stretch_stream(*, seed: int, part: str, stretch: int) -> np.random.Generator:
    """Deals the jobs of one stretch of `part` to its windows; equal for all of these.

    Raises:
        TraceError: if the part is unknown, or seed or stretch is negative.
    """
    return np.random.default_rng(_root(seed, STRETCHES, _number(part), stretch))


def _number(part: str) -> int:
    if part not in PARTS:
        raise TraceError(
            f"part '{part}' is unknown{nearest(part, PARTS)}; parts: {', '.join(PARTS)}"
        )
    return PARTS[part]


def _streams(seed: int, kind: int, index: int) -> Streams:
    root = _root(seed, kind, index)
    jobs, profiles, homes, estimates = map(np.random.default_rng, root.spawn(4))
    return Streams(jobs, profiles, homes, estimates)


def _root(seed: int, *key: int) -> np.random.SeedSequence:
    for name, value in (("seed", seed), ("window", key[-1])):
        if value < 0:
            raise TraceError(f"{name} is {value}; it must be 0 or more")
    return np.random.SeedSequence(entropy=seed, spawn_key=key)


@dataclass(frozen=True, kw_only=True)
class Owners:
    """How virtual clusters find their partitions."""

    partition_gpus: IntArray  # (M,)
    of_group: Mapping[str, int]  # a group of servers -> its partition

    @classmethod
    def of(cls, topology: Topology, partition_of_server: IntArray) -> Owners:
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
