"""An inventory: servers as a list, however they were read, made into a wired topology."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import yaml

from sim.arrays import FloatArray, IntArray, objects, plain_number
from sim.errors import TopologyError, nearest
from sim.text_files import quoted_rows, read_text
from sim.topology.generators import leaf_spine_links
from sim.topology.links import LinkGraph, tree_links
from sim.topology.servers import (
    MOST_GPUS,
    MOST_PORTS,
    ServerInside,
    Servers,
    check_counts,
    check_rates,
    inside_of,
)
from sim.topology.topology import GpuKind, Topology

# Plain values; dates and bytes come through as they are and are refused where they are read.
Value = Any


@dataclass(frozen=True)
class Marked:
    """A value and its line, or its key's: a scalar, a list of `Marked`, or a dict of them."""

    value: Value
    line: int  # from 1


def read_marked_yaml(path: str) -> Marked:
    """Read one YAML document.

    Raises:
        TopologyError: naming file and line, if it cannot be read or decoded, is no YAML, names a
            key twice, or uses anchors (whose copies have no line of their own).
    """
    text = read_text(path, TopologyError, "set topology.path to a description")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise TopologyError(f"{path}: the file is empty; docs/clusters.md shows an example")
        return _marked(loader, node, path, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TopologyError(f"{path}, line {line}: is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TopologyError(
            f"{path}, line {line}: is not YAML: character {error.character:#x} is not allowed"
        ) from error
    except yaml.YAMLError as error:
        raise TopologyError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise TopologyError(f"{path}: is nested too deeply to be a description") from error


def _marked(loader: yaml.SafeLoader, node: yaml.Node, path: str, seen: set[int]) -> Marked:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise TopologyError(f"{path}, line {line}: anchors are not supported; write the value out")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return Marked([_marked(loader, each, path, seen) for each in node.value], line)
    if isinstance(node, yaml.MappingNode):
        return Marked(_entries(loader, node, path, seen), line)
    try:
        return Marked(loader.construct_object(node), line)
    except ValueError as error:  # a number or a date that Python cannot hold
        raise TopologyError(f"{path}, line {line}: {node.value[:40]!r}: {error}") from error


def _entries(
    loader: yaml.SafeLoader, node: yaml.MappingNode, path: str, seen: set[int]
) -> dict[str, Marked]:
    entries: dict[str, Marked] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key, str):
            raise TopologyError(f"{path}, line {line}: a key must be a plain word")
        if key in entries:
            raise TopologyError(f"{path}, line {line}: the key {key} stands there twice")
        entries[key] = replace(_marked(loader, value_node, path, seen), line=line)
    return entries


@dataclass(frozen=True)
class NodeRows:
    """N rows of comma-separated text below a header; all as wide as the header."""

    path: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # (N,) 1-based line at which each row starts

    def column(self, name: str, key: str = "") -> int:
        """Place of the column `name`, as the key `key` says; TopologyError: absent, or twice."""
        if self.header.count(name) == 1:
            return self.header.index(name)
        if name in self.header:
            raise TopologyError(f"{self.path}, line 1: two columns are called '{name}'; rename one")
        raise TopologyError(
            f"{self.path}, line 1: no column '{name}'{f' ({key})' * bool(key)}"
            f"{nearest(name, self.header)}; the file has: {', '.join(self.header)}"
            + ("; fields must be separated by commas" if len(self.header) == 1 else "")
        )

    def text(self, row: int, column: int) -> str:
        """Text of a cell without surrounding blanks; may be empty."""
        return self.rows[row][column].strip()

    def number(self, row: int, column: int, *, high: float) -> float:
        """A number from 0 to `high`."""
        value = plain_number(self.text(row, column))
        if value is None:
            raise self.refusal(row, column, "is not a number")
        if math.isnan(value) or not 0 <= value <= high:
            raise self.refusal(row, column, f"is not from 0 to {high:g}")
        return value

    def count(self, row: int, column: int, *, high: int) -> int:
        """A whole number from 0 to `high`; `8.0` is one."""
        value = self.number(row, column, high=high)
        if value != int(value):
            raise self.refusal(row, column, "is not a whole number")
        return int(value)

    def refusal(self, row: int, column: int, rule: str) -> TopologyError:
        """The error that a cell breaks `rule`."""
        return TopologyError(f"{self.where(row, column)}: {self.rows[row][column][:60]!r} {rule}")

    def where(self, row: int, column: int) -> str:
        """File, line and column of a cell."""
        return f"{self.path}, line {self.lines[row]}, column '{self.header[column]}'"


def read_node_rows(path: str) -> NodeRows:
    """Read a plain or gzip CSV file with a header row; blank lines are left out.

    Raises:
        TopologyError: naming file and line, if it cannot be read, unpacked, decoded or split, has
            no rows, or has a row of another width than the header.
    """
    text = read_text(path, TopologyError, "set topology.path to a node list")
    rows = list(quoted_rows(text, path, TopologyError))
    if len(rows) <= 1:
        raise TopologyError(f"{path}: has no row below a header; give one row a server")
    header = [name.strip() for name in rows[0][0]]
    for row, line in rows:
        if len(row) != len(header):
            raise TopologyError(
                f"{path}, line {line}: {len(row)} fields, the header has {len(header)}; "
                f"complete or remove the row"
            )
    return NodeRows(path, header, [row for row, _ in rows[1:]], [line for _, line in rows[1:]])


def pod_links(
    *,
    server_rack: IntArray,  # (S,)
    nic_gbps: FloatArray,  # (S,)
    # (R,) of a rack, over its links to all aggregations of its pod together.
    uplink_gbps: FloatArray,
    rack_pod: IntArray,  # (R,)
    pod_uplink_gbps: FloatArray,  # (D,) of a pod, over the links of all its aggregations together
    spines: int,  # number of planes
) -> LinkGraph:
    """Every pod has `spines` aggregations; aggregation i leads to core i, of `spines` cores."""
    servers, racks, pods = len(server_rack), len(rack_pod), len(pod_uplink_gbps)
    rack = np.repeat(np.arange(racks), spines)
    agg_of_rack = rack_pod[rack] * spines + np.tile(np.arange(spines), racks)
    agg = np.arange(pods * spines)
    return tree_links(
        ("server", "rack switch", "aggregation", "core"),
        (servers, racks, pods * spines, spines),
        (np.arange(servers), server_rack, nic_gbps),
        (rack, agg_of_rack, np.repeat(uplink_gbps / spines, spines)),
        (agg, agg % spines, np.repeat(pod_uplink_gbps / spines, spines)),
    )


@dataclass(frozen=True)
class Shape:
    """What servers of one kind are like."""

    gpus: int  # >= 1
    gpu_type: str
    nic_gbps: float  # all NICs together
    inside: ServerInside
    cpu_milli: int | None = None  # None: unbounded
    memory_mib: int | None = None
    kind: GpuKind | None = None  # what more is said of the GPU type

    def __post_init__(self) -> None:
        """Check the rate; a reader of files has told its line before."""
        check_rates({"nic_gbps": self.nic_gbps})

    @property
    def intra_gbps(self) -> float:
        """GPU to GPU inside the server, where a network model asks for one number."""
        return self.inside.all_gpus_gbps(self.gpus)


@dataclass(frozen=True)
class Entry:
    """One server; racks and pods are told apart by name."""

    name: str
    shape: Shape
    rack: str
    pod: str  # "" where the cluster has no pods
    group: str  # virtual cluster or owner; "" where it has none


@dataclass(frozen=True)
class Wiring:
    """Switches above the racks: spines, or aggregations in pods and cores above them."""

    spines: int  # spine switches; with pods: aggregations of a pod, and cores
    oversubscription: float  # NICs of a rack over its uplink
    pod_oversubscription: float | None = None  # uplinks of a pod's racks over the pod's; or no pods
    # Of racks for which it was measured or stated.
    rack_uplink_gbps: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the numbers; a reader of files has told their line before."""
        check_counts({"spines": self.spines}, MOST_PORTS)
        check_rates({"oversubscription": self.oversubscription})
        if self.pod_oversubscription is not None:
            check_rates({"pod_oversubscription": self.pod_oversubscription})


def assembled(*, name: str, source: str, entries: Sequence[Entry], wiring: Wiring) -> Topology:
    """The topology of an inventory; errors name the file `source`.

    Servers are put in order of their pod, then of their rack, both as first named; within a rack
    they keep their order. Names and groups go along.

    Raises:
        TopologyError: if there is no server, too many GPUs, a rack in two pods, or only some
            servers have cores or memory.
    """
    if not entries:
        raise TopologyError(f"{source}: no server with a GPU; the cluster would be empty")
    ordered = _in_order(entries)
    rack_pod_name = _pod_of_rack(source, ordered)
    place = {rack: at for at, rack in enumerate(rack_pod_name)}
    server_rack = np.array([place[entry.rack] for entry in ordered], dtype=np.int64)
    servers = _servers(source, ordered)
    uplink_gbps = np.bincount(server_rack, servers.nic_gbps) / wiring.oversubscription
    for rack, gbps in wiring.rack_uplink_gbps.items():
        uplink_gbps[place[rack]] = gbps
    pods = _first_seen(list(rack_pod_name.values()))
    rack_pod = np.array([pods[pod] for pod in rack_pod_name.values()], dtype=np.int64)
    links = _links(servers, server_rack, uplink_gbps, rack_pod, wiring)
    return servers.wired(name=name, server_rack=server_rack, uplink_gbps=uplink_gbps, links=links)


def _in_order(entries: Sequence[Entry]) -> list[Entry]:
    pods = _first_seen([entry.pod for entry in entries])
    racks = _first_seen([entry.rack for entry in entries])
    return sorted(entries, key=lambda entry: (pods[entry.pod], racks[entry.rack]))


def _links(
    servers: Servers, server_rack: IntArray, uplink_gbps: FloatArray, rack_pod: IntArray,
    wiring: Wiring,
) -> LinkGraph:  # fmt: skip
    if wiring.pod_oversubscription is None:
        return leaf_spine_links(server_rack, servers.nic_gbps, uplink_gbps, wiring.spines)
    return pod_links(
        server_rack=server_rack,
        nic_gbps=servers.nic_gbps,
        uplink_gbps=uplink_gbps,
        rack_pod=rack_pod,
        pod_uplink_gbps=np.bincount(rack_pod, uplink_gbps) / wiring.pod_oversubscription,
        spines=wiring.spines,
    )


def _first_seen(names: Sequence[str]) -> dict[str, int]:
    return {name: at for at, name in enumerate(dict.fromkeys(names))}


def _pod_of_rack(source: str, entries: Sequence[Entry]) -> dict[str, str]:
    """Pod of each rack, racks in the order in which they come."""
    pod_of_rack: dict[str, str] = {}
    for entry in entries:
        pod = pod_of_rack.setdefault(entry.rack, entry.pod)
        if pod != entry.pod:
            raise TopologyError(
                f"{source}: rack {entry.rack!r} is in pod {pod!r} and in pod {entry.pod!r}; "
                f"a rack has one pod"
            )
    return pod_of_rack


def _servers(source: str, entries: Sequence[Entry]) -> Servers:
    shapes = [entry.shape for entry in entries]
    gpu_types = _first_seen([shape.gpu_type for shape in shapes])
    kinds = _kinds(shapes)
    insides = list(dict.fromkeys(shape.inside for shape in shapes))
    which = {inside: at for at, inside in enumerate(insides)}
    gpus = np.array([shape.gpus for shape in shapes], dtype=np.int64)
    if gpus.sum() > MOST_GPUS:
        raise TopologyError(f"{source}: {gpus.sum()} GPUs; at most {MOST_GPUS} are supported")
    of_server = np.array([which[shape.inside] for shape in shapes], dtype=np.int64)
    groups = [entry.group for entry in entries]
    return Servers(
        gpu_types=tuple(gpu_types),
        gpus=gpus,
        gpu_type=np.array([gpu_types[shape.gpu_type] for shape in shapes], dtype=np.int64),
        nic_gbps=np.array([shape.nic_gbps for shape in shapes], dtype=np.float64),
        intra_gbps=np.array([shape.intra_gbps for shape in shapes], dtype=np.float64),
        cpu_milli=_amounts(source, "cores", [shape.cpu_milli for shape in shapes]),
        memory_mib=_amounts(source, "memory", [shape.memory_mib for shape in shapes]),
        name=objects([entry.name for entry in entries]),
        group=objects(groups) if any(groups) else None,
        inside=(
            None
            if all(inside.is_flat for inside in insides)
            else inside_of(insides, of_server, gpus)
        ),
        gpu_kinds=kinds,
    )


def _kinds(shapes: Sequence[Shape]) -> tuple[GpuKind, ...]:
    """What is said of each GPU type; () where nothing is, not even where it was named."""
    kinds: dict[str, GpuKind] = {}
    for shape in dict.fromkeys(shapes):
        if shape.kind is None:
            return ()
        kind = kinds.setdefault(shape.gpu_type, shape.kind)
        if kind.facts != shape.kind.facts:
            raise TopologyError(
                f"{shape.kind.where}: {shape.gpu_type!r} has another like, speed or memory than at "
                f"{kind.where}; say the same of a type everywhere, or give it two names"
            )
    return tuple(kinds.values())


def _amounts(source: str, what: str, amounts: Sequence[int | None]) -> IntArray | None:
    given = [amount for amount in amounts if amount is not None]
    if not given:
        return None
    if len(given) < len(amounts):
        raise TopologyError(
            f"{source}: {len(given)} of {len(amounts)} servers tell their {what}; "
            f"tell it of all or of none"
        )
    return np.array(given, dtype=np.int64)
