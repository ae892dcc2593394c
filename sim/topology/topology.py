"""The tree datacenter -> rack -> server -> GPU with link capacities; immutable."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray, read_only
from sim.topology.gpu_kind import GpuKind
from sim.topology.inside import Inside
from sim.topology.links import LinkGraph


@dataclass(frozen=True)
class Topology:
    """G GPUs in S servers in R racks. GPUs of a server and servers of a rack are contiguous."""

    name: str
    gpu_types: tuple[str, ...]  # names of the GPU types present
    gpu_server: IntArray  # (G,)
    server_first_gpu: IntArray  # (S + 1,) GPUs of server s: [first[s], first[s + 1])
    server_gpu_type: IntArray  # (S,) index into gpu_types
    server_rack: IntArray  # (S,)
    nic_gbps: FloatArray  # (S,) server <-> rack switch
    uplink_gbps: FloatArray  # (R,) rack switch <-> spine, all links together
    intra_gbps: FloatArray  # (S,) GPU <-> GPU inside the server
    # None: not described.
    server_cpu_milli: IntArray | None = None  # (S,) thousandths of a core; None: unbounded
    server_memory_mib: IntArray | None = None  # (S,) None: unbounded
    server_name: TextArray | None = None  # (S,) names in the file that described the cluster
    server_group: TextArray | None = None  # (S,) virtual cluster or owner, "" where it has none
    links: LinkGraph | None = None
    inside: Inside | None = None
    gpu_kinds: tuple[GpuKind, ...] = ()  # of gpu_types, as described; (): they are only named

    @property
    def num_gpus(self) -> int:
        """G."""
        return len(self.gpu_server)

    @property
    def num_servers(self) -> int:
        """S."""
        return len(self.server_rack)

    @property
    def num_racks(self) -> int:
        """R."""
        return len(self.uplink_gbps)

    @cached_property
    def gpus_per_server(self) -> IntArray:
        """(S,) GPUs of each server."""
        return read_only(np.diff(self.server_first_gpu))
