"""What a picker of jobs sees, as plain numbers: part of its policy file."""

from dataclasses import dataclass, replace

import numpy as np

from sim.errors import GpuYardError
from sim.topology.topology import Topology

BY_WORTH, BY_SUBMISSION = "worth", "submission"
ORDERS = (BY_WORTH, BY_SUBMISSION)
MULTI, SINGLE = "multi", "single"
BRANCHES = (MULTI, SINGLE)


class TopDrlError(GpuYardError):
    """A value of the specification is out of range, or a view does not fit the policy."""


@dataclass(frozen=True, kw_only=True)
class SightSpec:
    """The queue window and the time axis of the images."""

    slots: int  # waiting jobs that can be picked
    oldest_slots: int  # of these, the last so many show the oldest jobs that the order leaves out
    order: str  # of the others: `worth` a GPU at full speed, falling, or `submission`
    rows: int  # of time
    row_s: float  # seconds of the first row
    row_growth: float  # each row is so many times as long as the one before
    block_gpus: int  # columns of a job's block; wider gangs fill it

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TopDrlError: naming the key, the value and the rule.
        """
        for key, good, rule in (
            ("slots", self.slots >= 1, "1 or more"),
            ("oldest_slots", 0 <= self.oldest_slots <= self.slots, "from 0 to sight.slots"),
            ("order", self.order in ORDERS, f"one of {', '.join(ORDERS)}"),
            ("rows", self.rows >= 1, "1 or more"),
            ("row_s", self.row_s > 0, "above 0"),
            ("row_growth", self.row_growth >= 1, "1 or more"),
            ("block_gpus", self.block_gpus >= 1, "1 or more"),
        ):
            if not good:
                raise TopDrlError(f"sight.{key} is {getattr(self, key)!r}; it must be {rule}")


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """Sizes of the network that scores the slots."""

    branches: str  # `multi`: three images, `single`: one
    channels: int  # of every convolution
    hidden: int  # width of every embedding
    server_gpus: int  # padded; larger servers cannot be seen
    racks: int = 1  # of the cluster; a `single` network fits no other
    rack_servers: int = 1

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TopDrlError: naming the key, the value and the rule.
        """
        if self.branches not in BRANCHES:
            raise TopDrlError(
                f"network.branches is {self.branches!r}; it must be {' or '.join(BRANCHES)}"
            )
        for key in ("channels", "hidden", "racks", "rack_servers", "server_gpus"):
            if getattr(self, key) < 1:
                raise TopDrlError(f"network.{key} is {getattr(self, key)}; it must be 1 or more")


def on_cluster(network: NetworkSpec, topology: Topology) -> NetworkSpec:
    """`network` with the racks of this cluster."""
    servers = np.bincount(topology.server_rack)
    return replace(network, racks=len(servers), rack_servers=int(servers.max()))
