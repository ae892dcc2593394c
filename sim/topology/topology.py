"""The tree datacenter -> rack -> server -> GPU with link capacities, and its partitions.

Inside servers: sockets, PCIe switches, NVLink islands, and how fast GPUs talk.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray, read_only
from sim.errors import TopologyError, amount
from sim.jit import kernel
from sim.topology.links import LinkGraph

NO_ISLAND = -1


@dataclass(frozen=True)
class Inside:
    """G GPUs of S servers; sockets, switches and islands are numbered within each server."""

    gpu_socket: IntArray  # (G,)
    gpu_switch: IntArray  # (G,) PCIe switch
    gpu_island: IntArray  # (G,) NVLink island; NO_ISLAND: none
    nvlink_gbps: FloatArray  # (S,) between GPUs of one island
    pcie_gbps: FloatArray  # (S,) between GPUs below one PCIe switch
    socket_gbps: FloatArray  # (S,) between all others, through the processor sockets

    def __post_init__(self) -> None:
        """Check shapes and ranges."""
        shapes = {a.shape for a in (self.gpu_socket, self.gpu_switch, self.gpu_island)}
        rates = (self.nvlink_gbps, self.pcie_gbps, self.socket_gbps)
        if len(shapes) != 1 or len({rate.shape for rate in rates}) != 1:
            raise TopologyError("inside: its columns differ in length")
        if not all(np.all(np.isfinite(rate) & (rate > 0)) for rate in rates):
            raise TopologyError("inside: a rate is not a finite number above 0 Gbps")


@kernel
def slowest_hop_gbps(  # noqa: PLR0917 (compiled: arrays by position)
    gpu_switch: IntArray,
    gpu_island: IntArray,
    nvlink_gbps: FloatArray,
    pcie_gbps: FloatArray,
    socket_gbps: FloatArray,
    server: int,
    gpus: IntArray,
) -> float:
    """Slowest hop between any two of a server's GPUs; the arrays are those of `Inside`.

    A pair of one island uses NVLink, else a pair below one PCIe switch that switch, else the
    processor sockets. Fewer than two GPUs have no hop: infinity.
    """
    slowest = math.inf
    for at in range(len(gpus)):  # all pairs, for both ends decide which way a hop takes
        for before in range(at):  # hops are the same both ways: each pair once
            one, two = gpus[at], gpus[before]
            if gpu_island[one] >= 0 and gpu_island[one] == gpu_island[two]:
                hop = nvlink_gbps[server]
            elif gpu_switch[one] == gpu_switch[two]:
                hop = pcie_gbps[server]
            else:
                hop = socket_gbps[server]
            slowest = min(slowest, hop)
    return slowest


@dataclass(frozen=True)
class Watts:
    """Power of one GPU."""

    idle: float  # on, without a tenant
    busy: float  # with at least one tenant


@dataclass(frozen=True)
class GpuKind:
    """One GPU type of a cluster."""

    where: str  # where it was named: file, line and key, for errors; "": in the configuration
    like: str | None = None  # type whose profiles stand in for it; None: by `conf/gpu_table`
    speed: float | None = None  # over that type's
    memory_gib: float | None = None  # of one GPU

    @property
    def facts(self) -> tuple[str | None, float | None, float | None]:
        """All but where it was said."""
        return self.like, self.speed, self.memory_gib


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


def contiguous_partitions(topology: Topology, count: int) -> IntArray:
    """(S,) partition of each server: `count` runs of servers, as equal as possible.

    Racks stay whole when `count` divides the number of racks; otherwise servers are dealt.
    """
    racks, servers = topology.num_racks, topology.num_servers
    if not 1 <= count <= servers:
        raise TopologyError(
            f"agents.count is {count}; the cluster {topology.name} has "
            f"{amount(servers, 'server')}, so it can have 1 to {amount(servers, 'partition')}"
        )
    if racks % count == 0:
        return topology.server_rack // (racks // count)
    return np.arange(servers) * count // servers


def group_partitions(topology: Topology, count: int) -> IntArray:
    """(S,) partition of each server: every group (virtual cluster) whole, in one of `count`.

    Groups are dealt from the one with most GPUs to the one with fewest, ties by first appearance,
    each to the partition with fewest GPUs so far, the lowest at a tie. Servers without a group
    count as one group.
    """
    if topology.server_group is None:
        raise TopologyError(
            f"the cluster {topology.name} has no groups; set agents.division=contiguous"
        )
    names = list(dict.fromkeys(topology.server_group.tolist()))
    if not 1 <= count <= len(names):
        raise TopologyError(
            f"agents.count is {count}; the cluster {topology.name} has "
            f"{amount(len(names), 'group')}, so it can have 1 to {amount(len(names), 'partition')}"
        )
    place = {name: at for at, name in enumerate(names)}
    group = np.array([place[name] for name in topology.server_group.tolist()], dtype=np.int64)
    gpus = np.bincount(group, weights=topology.gpus_per_server)
    held = np.zeros(count)
    partition = np.empty(len(names), dtype=np.int64)
    for largest in np.argsort(-gpus, kind="stable"):
        partition[largest] = np.argmin(held)
        held[partition[largest]] += gpus[largest]
    return partition[group]
