"""Servers before they are wired: shapes, types, and how the GPUs inside are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray
from sim.errors import TopologyError, check_keys, check_numbers
from sim.topology.links import LinkGraph
from sim.topology.topology import NO_ISLAND, GpuKind, Inside, Topology

MOST_GPUS = 10_000_000  # of a cluster: a typing error should not fill the memory
MOST_SERVERS = 1_000_000  # of a description, server by server
MOST_GPUS_PER_SERVER = 1024
MOST_PORTS = 1024  # of a switch towards the switches above it


def check_counts(counts: Mapping[str, int], most: int = MOST_GPUS) -> None:
    """Raise TopologyError unless every count is a whole number from 1 to `most`."""
    for key, value in counts.items():
        _check_whole(key, value)
        if not 1 <= value <= most:
            raise TopologyError(
                f"topology.{key} is {value}; it must be at least 1 and at most {most}"
            )


def _check_whole(key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        fix = f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""
        raise TopologyError(f"topology.{key} is {value!r}; it must be a whole number{fix}")


def check_rates(rates: Mapping[str, float]) -> None:
    """Raise TopologyError unless every rate is a number with which times can be told."""
    check_numbers("topology", "from 1e-6 to 1e12", TopologyError, **rates)


@dataclass(frozen=True)
class ServerInside:
    """One server shape's inside; GPU i of n is in part i * parts // n of each division."""

    sockets: int
    pcie_switches: int  # a multiple of sockets
    nvlink_islands: int  # 0: no NVLink
    nvlink_gbps: float
    pcie_gbps: float
    socket_gbps: float

    def __post_init__(self) -> None:
        """Check that the divisions nest and the rates are rates."""
        check_counts({"inside.sockets": self.sockets, "inside.pcie_switches": self.pcie_switches})
        if self.nvlink_islands:
            check_counts({"inside.nvlink_islands": self.nvlink_islands})
        if self.pcie_switches % self.sockets:
            raise TopologyError(
                f"topology.inside.pcie_switches is {self.pcie_switches}; it must be a multiple of "
                f"the {self.sockets} sockets"
            )
        rates = ("nvlink_gbps", "pcie_gbps", "socket_gbps")
        check_rates({f"inside.{key}": getattr(self, key) for key in rates})

    @property
    def is_flat(self) -> bool:
        """Whether it says no more than one rate for all pairs of GPUs."""
        return (self.sockets, self.pcie_switches, self.nvlink_islands) == (1, 1, 0)

    def all_gpus_gbps(self, gpus: int) -> float:
        """Rate of the slowest hop among all of a server's `gpus` GPUs."""
        if self.nvlink_islands == 1:
            return self.nvlink_gbps
        return self.pcie_gbps if min(gpus, self.pcie_switches) == 1 else self.socket_gbps


def flat_inside(gbps: float) -> ServerInside:
    """One rate between all GPUs of a server: one socket, one PCIe switch, no NVLink."""
    return ServerInside(1, 1, 0, nvlink_gbps=gbps, pcie_gbps=gbps, socket_gbps=gbps)


def chosen_inside(intra_gbps: float | None, inside: Mapping[str, float] | None) -> ServerInside:
    """From exactly one of the two ways to state it: one rate, or the whole inside."""
    if inside is not None and intra_gbps is None:
        return inside_from(inside)
    if intra_gbps is None or inside is not None:
        raise TopologyError("topology.intra_gbps and topology.inside: give one of them")
    check_rates({"intra_gbps": intra_gbps})
    return flat_inside(float(intra_gbps))


def inside_from(values: Mapping[str, float]) -> ServerInside:
    """From a mapping with just the fields of `ServerInside`; TopologyError names any other key."""
    known = tuple(ServerInside.__dataclass_fields__)
    check_keys(values, known, "topology.inside", TopologyError)
    for key in known:
        if key not in values:
            raise TopologyError(f"topology.inside.{key} is missing; keys: {', '.join(known)}")
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TopologyError(f"topology.inside.{key} is {value!r}; it must be a number")
    return ServerInside(**values)  # type: ignore[arg-type]  # it checks that counts are whole


def inside_of(insides: list[ServerInside], of_server: IntArray, gpus: IntArray) -> Inside:
    """That of S servers: server s has `gpus[s]` GPUs and is as `insides[of_server[s]]`."""

    def column(name: str) -> FloatArray:
        return np.array([float(getattr(inside, name)) for inside in insides])[of_server]

    def part(parts: FloatArray) -> IntArray:
        placed = number * np.repeat(parts.astype(np.int64), gpus) // np.repeat(gpus, gpus)
        return np.asarray(placed, dtype=np.int64)

    number = np.arange(gpus.sum()) - np.repeat(np.cumsum(gpus) - gpus, gpus)  # within the server
    islands = column("nvlink_islands")
    return Inside(
        gpu_socket=part(column("sockets")),
        gpu_switch=part(column("pcie_switches")),
        gpu_island=np.where(np.repeat(islands, gpus) > 0, part(islands), NO_ISLAND),
        nvlink_gbps=column("nvlink_gbps"),
        pcie_gbps=column("pcie_gbps"),
        socket_gbps=column("socket_gbps"),
    )


@dataclass(frozen=True)
class Servers:
    """S servers, those of a rack side by side."""

    gpu_types: tuple[str, ...]
    gpus: IntArray  # (S,) GPUs of each server, >= 1
    gpu_type: IntArray  # (S,) index into gpu_types
    nic_gbps: FloatArray  # (S,)
    intra_gbps: FloatArray  # (S,)
    cpu_milli: IntArray | None
    memory_mib: IntArray | None
    name: TextArray | None
    group: TextArray | None
    inside: Inside | None
    gpu_kinds: tuple[GpuKind, ...] = ()

    def wired(
        self, *, name: str, server_rack: IntArray, uplink_gbps: FloatArray, links: LinkGraph
    ) -> Topology:
        """The topology of these servers in racks.

        Args:
            name: of the cluster, for reports.
            server_rack: (S,) ascending, every rack from 0 to R - 1, else a TopologyError.
            uplink_gbps: (R,) all that a rack can send out of it, and as much into it.
            links: link graph over the same servers.
        """
        racks = np.unique(server_rack)
        if np.any(np.diff(server_rack) < 0) or racks.tolist() != list(range(len(uplink_gbps))):
            raise TopologyError(
                f"topology {name}: server_rack must ascend over the racks 0 to "
                f"{len(uplink_gbps) - 1}, which uplink_gbps lists; sort the servers by rack"
            )
        return Topology(
            name=name, gpu_types=self.gpu_types,
            gpu_server=np.repeat(np.arange(len(self.gpus)), self.gpus),
            server_first_gpu=np.concatenate([[0], np.cumsum(self.gpus)]).astype(np.int64),
            server_gpu_type=self.gpu_type, server_rack=np.asarray(server_rack, dtype=np.int64),
            nic_gbps=self.nic_gbps, uplink_gbps=uplink_gbps, intra_gbps=self.intra_gbps,
            server_cpu_milli=self.cpu_milli, server_memory_mib=self.memory_mib,
            server_name=self.name, server_group=self.group, links=links, inside=self.inside,
            gpu_kinds=self.gpu_kinds,
        )  # fmt: skip


def dealt_servers(
    *, servers: int, gpus_per_server: int | list[int], gpu_types: list[str], intra_gbps: float,
    nic_gbps: float, cpu_milli: int | None, memory_mib: int | None,
    inside: Mapping[str, float] | None,
) -> Servers:  # fmt: skip
    """Servers whose sizes and GPU types are dealt by turns from the given lists.

    Args:
        servers: S, their number.
        gpus_per_server: one number, or a list of which server s gets entry s % length.
        gpu_types: server s has type gpu_types[s % length].
        intra_gbps: GPU to GPU inside a server, for network models that know no inside.
        nic_gbps: server to rack switch.
        cpu_milli: thousandths of a core of each server; None: unbounded.
        memory_mib: memory of each server; None: unbounded.
        inside: of each server, the keys of `ServerInside`; None: not described.
    """
    check_rates({"intra_gbps": intra_gbps, "nic_gbps": nic_gbps})
    sizes = _sizes(servers, gpus_per_server)
    if not isinstance(gpu_types, list | tuple):
        fix = f", like [{gpu_types!r}]" if isinstance(gpu_types, str) else ""
        raise TopologyError(f"topology.gpu_types is {gpu_types!r}; it must be a list{fix}")
    if not gpu_types:
        raise TopologyError("topology.gpu_types is empty; name at least one GPU type")
    names = [str(name) for name in gpu_types]  # YAML reads 4090 as a number
    distinct = tuple(dict.fromkeys(names))
    gpu_type = np.array([distinct.index(name) for name in names], dtype=np.int64)
    gpus = np.resize(np.array(sizes, dtype=np.int64), servers)
    insides = [] if inside is None else [inside_from(inside)]
    all_alike = np.zeros(servers, dtype=np.int64)
    return Servers(
        gpu_types=distinct, gpus=gpus, gpu_type=np.resize(gpu_type, servers),
        nic_gbps=np.full(servers, float(nic_gbps)), intra_gbps=np.full(servers, float(intra_gbps)),
        cpu_milli=_same(servers, cpu_milli, "cpu_milli"),
        memory_mib=_same(servers, memory_mib, "memory_mib"), name=None, group=None,
        inside=inside_of(insides, all_alike, gpus) if insides else None,
    )  # fmt: skip


def _sizes(servers: int, gpus_per_server: int | list[int]) -> list[int]:
    check_counts({"servers": servers})
    several = gpus_per_server if isinstance(gpus_per_server, list | tuple) else [gpus_per_server]
    sizes = list(several)
    if not sizes:
        raise TopologyError("topology.gpus_per_server is empty; name at least one size")
    for size in sizes:
        check_counts({"gpus_per_server": size}, MOST_GPUS_PER_SERVER)
    if servers * max(sizes) > MOST_GPUS:
        raise TopologyError(f"topology.servers is {servers}: more than {MOST_GPUS} GPUs in all")
    return sizes


def _same(servers: int, amount: int | None, key: str) -> IntArray | None:
    check_numbers("topology", "null, or 0 or more", TopologyError, **{key: amount})
    if amount is None:
        return None
    _check_whole(key, amount)
    return np.full(servers, amount, dtype=np.int64)
