"""Clusters from public node lists, and from Helios's table of days by virtual clusters."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sim.errors import TopologyError, check_keys, nearest
from sim.topology import servers
from sim.topology.inventory import Entry, NodeRows, Shape, Wiring, assembled, read_node_rows
from sim.topology.topology import GpuKind, Topology


def racked(entries: Sequence[Entry], servers_per_rack: int) -> list[Entry]:
    """Put servers into racks of `servers_per_rack`, one GPU type a rack.

    Servers are sorted by GPU type, then by group, both in the order in which they first appear;
    within these they keep their order. Racks are filled in this order, and each GPU type begins a
    new rack, so that the last rack of a type may hold fewer.
    """
    servers.check_counts({"servers_per_rack": servers_per_rack})
    types = {name: at for at, name in enumerate(dict.fromkeys(e.shape.gpu_type for e in entries))}
    groups = {group: at for at, group in enumerate(dict.fromkeys(e.group for e in entries))}
    ordered = sorted(entries, key=lambda entry: (types[entry.shape.gpu_type], groups[entry.group]))
    seen = dict.fromkeys(types, 0)
    placed = []
    for entry in ordered:
        gpu_type = entry.shape.gpu_type
        placed.append(replace(entry, rack=f"{gpu_type}/{seen[gpu_type] // servers_per_rack}"))
        seen[gpu_type] += 1
    return placed


COLUMNS = (
    "server", "count", "gpus", "gpu_type", "cpu_cores", "cpu_milli", "memory_gib", "memory_mib",
    "rack", "pod", "group",
)  # fmt: skip
JOINED = ("rack", "pod")  # may be several columns
EITHER = (("server", "count"), ("cpu_cores", "cpu_milli"), ("memory_gib", "memory_mib"))
Columns = Mapping[str, str | Sequence[str] | None]


@dataclass(frozen=True)
class NodeCells:
    """A node list and the places of our columns in it."""

    rows: NodeRows
    places: Mapping[str, tuple[int, ...]]  # one place each, but for JOINED

    def __contains__(self, key: str) -> bool:
        """Whether the file has a column for `key`."""
        return key in self.places

    def text(self, row: int, key: str) -> str:
        """Text at a key, several columns joined by a slash; blank where the file has no column."""
        return "/".join(self.rows.text(row, place) for place in self.places.get(key, ()))

    def count(self, row: int, key: str, *, high: int) -> int:
        """A whole number at a key that the file has."""
        return self.rows.count(row, self.places[key][0], high=high)

    def scaled(self, row: int, units: Mapping[str, int], *, high: int) -> int | None:
        """An amount in its smallest unit from whichever key of `units` the file has, or None."""
        for key, factor in units.items():
            if key in self.places:
                amount = self.rows.number(row, self.places[key][0], high=high / factor)
                return round(amount * factor)
        return None

    def where(self, row: int, key: str) -> str:
        """File, line and column of a cell that the file has."""
        return self.rows.where(row, self.places[key][0])

    def refusal(self, row: int, key: str, rule: str) -> TopologyError:
        """The error that the cell at a key breaks `rule`."""
        return self.rows.refusal(row, self.places[key][0], rule)


def node_cells(rows: NodeRows, columns: Columns) -> NodeCells:
    """Find each mapped column in the header; TopologyError: unknown keys, absent columns."""
    check_keys(columns, COLUMNS, "topology.columns", TopologyError)
    places: dict[str, tuple[int, ...]] = {}
    for key, wanted in columns.items():
        if wanted is None:
            continue
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        if not names or (len(names) > 1 and key not in JOINED):
            raise TopologyError(f"topology.columns.{key} is {names}; name one column")
        places[key] = tuple(rows.column(str(name), f"topology.columns.{key}") for name in names)
    _check_keys(places)
    return NodeCells(rows, places)


def _check_keys(places: Mapping[str, tuple[int, ...]]) -> None:
    for one, other in EITHER:
        if one in places and other in places:
            raise TopologyError(
                f"topology.columns has {one} and {other}; name a column for one of them"
            )
    if "server" not in places and "count" not in places:
        raise TopologyError("topology.columns has neither server nor count; name one of them")
    if "pod" in places and "rack" not in places:
        raise TopologyError("topology.columns has pod and no rack; name the racks' column too")


log = logging.getLogger(__name__)

CPU_UNITS = {"cpu_cores": 1000, "cpu_milli": 1}
MEMORY_UNITS = {"memory_gib": 1024, "memory_mib": 1}
MOST_CPU_MILLI = 10**9
MOST_MEMORY_MIB = 10**10


def node_entries(cells: NodeCells, missing: Shape) -> list[Entry]:
    """The servers of a node list, in the file's order; servers without GPUs are left out.

    `missing` is what holds where a row says nothing; GPU type "": a row must say it.

    Raises:
        TopologyError: naming file, line, column, value and fix.
    """
    entries: list[Entry] = []
    names: set[str] = set()
    left_out = 0
    for row in range(len(cells.rows.rows)):
        gpus = missing.gpus
        if "gpus" in cells:
            gpus = cells.count(row, "gpus", high=servers.MOST_GPUS_PER_SERVER)
        if gpus == 0:
            left_out += 1
            continue
        shape = replace(
            missing,
            gpus=gpus,
            gpu_type=_gpu_type(cells, row, missing.gpu_type),
            kind=GpuKind(where=cells.where(row, "gpu_type") if cells.text(row, "gpu_type") else ""),
            cpu_milli=cells.scaled(row, CPU_UNITS, high=MOST_CPU_MILLI),
            memory_mib=cells.scaled(row, MEMORY_UNITS, high=MOST_MEMORY_MIB),
        )
        entries += _row_entries(cells, row, shape, names)
        if len(entries) > servers.MOST_SERVERS:
            raise TopologyError(f"{cells.rows.path}: more than {servers.MOST_SERVERS} servers")
    if left_out:
        log.info("%s: %d servers without GPUs left out", cells.rows.path, left_out)
    return entries


def renamed(entries: Iterable[Entry], type_names: Mapping[str, str]) -> list[Entry]:
    """The servers with their GPU types called `type_names[type]` where that is given."""
    return [
        replace(each, shape=_called(each.shape, type_names[each.shape.gpu_type]))
        if each.shape.gpu_type in type_names
        else each
        for each in entries
    ]


def _called(shape: Shape, gpu_type: str) -> Shape:
    """The shape with its GPU type called otherwise."""
    where = "" if shape.kind is None else shape.kind.where
    if where:
        where = f"{where}: {shape.gpu_type!r}, by topology.type_names"
    return replace(shape, gpu_type=gpu_type, kind=GpuKind(where=where))


def _gpu_type(cells: NodeCells, row: int, missing: str) -> str:
    named = cells.text(row, "gpu_type") or missing
    if not named:
        raise cells.refusal(row, "gpu_type", "is blank; give the GPU type, or topology.gpu_type")
    return named


def _row_entries(cells: NodeCells, row: int, shape: Shape, names: set[str]) -> Iterator[Entry]:
    group, place = cells.text(row, "group"), {key: cells.text(row, key) for key in JOINED}
    for key, text in place.items():
        if key in cells and not text.strip("/"):
            raise cells.refusal(row, key, "is blank; give it a name, or map no column to it")
    if "server" in cells:
        chosen = [cells.text(row, "server")]
        key = "server"
    else:
        count = cells.count(row, "count", high=servers.MOST_SERVERS)
        key = "count"
        chosen = [f"{group or cells.rows.lines[row]}/{at}" for at in range(count)]
    for name in chosen:
        if not name or name in names:
            raise cells.refusal(row, key, "is blank or named twice; names of servers differ")
        names.add(name)
        yield Entry(name=name, shape=shape, group=group, **place)


def node_list(
    *, name: str, path: str, columns: Mapping[str, str | list[str] | None], gpus: int | None,
    gpu_type: str | None, type_names: Mapping[str, str] | None, servers_per_rack: int | None,
    spines: int, oversubscription: float, pod_oversubscription: float | None, nic_gbps: float,
    intra_gbps: float | None, inside: Mapping[str, float] | None,
) -> Topology:  # fmt: skip
    """Build a cluster from a CSV node list; conf/topology/node_list.yaml explains each option.

    Raises:
        TopologyError: naming file, line, column or key, value and fix.
    """
    cells = node_cells(read_node_rows(path), columns)
    _check_silence(cells, gpus, gpu_type, pod_oversubscription)
    missing = Shape(
        gpus=gpus or 0,
        gpu_type=gpu_type or "",
        nic_gbps=float(nic_gbps),
        inside=servers.chosen_inside(intra_gbps, inside),
    )
    entries = node_entries(cells, missing)
    if "rack" not in cells:
        if servers_per_rack is None:
            raise TopologyError("topology.servers_per_rack is null and no column names the racks")
        entries = racked(entries, servers_per_rack)
    return assembled(
        name=name,
        source=path,
        entries=renamed(entries, type_names or {}),
        wiring=Wiring(spines, oversubscription, pod_oversubscription),
    )


def _check_silence(
    cells: NodeCells, gpus: int | None, gpu_type: str | None, pod_oversubscription: float | None
) -> None:
    """Raise TopologyError where neither the file nor the configuration says a thing."""
    if "gpus" not in cells:
        if gpus is None:
            raise TopologyError("topology.gpus is null and no column holds it; give one of them")
        servers.check_counts({"gpus": gpus}, servers.MOST_GPUS_PER_SERVER)
    if "gpu_type" not in cells and not gpu_type:
        raise TopologyError("topology.gpu_type is null and no column holds it; give one of them")
    if ("pod" in cells) != (pod_oversubscription is not None):
        raise TopologyError(
            "topology.pod_oversubscription and topology.columns.pod go together; give both or none"
        )


def vc_gpus(
    *, name: str, path: str, date: str, date_column: str, total_column: str, gpus_per_server: int,
    gpu_type: str, servers_per_rack: int, spines: int, oversubscription: float, nic_gbps: float,
    intra_gbps: float | None, inside: Mapping[str, float] | None,
) -> Topology:  # fmt: skip
    """Build the cluster that virtual clusters made up on one day.

    A virtual cluster of n GPUs becomes n / gpus_per_server servers of its group, the last one
    smaller where that does not divide; racks follow `racked`. The options are explained in
    conf/topology/helios_venus_vcs.yaml.

    Raises:
        TopologyError: naming file, line, column or key, value and fix.
    """
    servers.check_counts({"gpus_per_server": gpus_per_server}, servers.MOST_GPUS_PER_SERVER)
    whole = Shape(
        gpus=gpus_per_server,
        gpu_type=gpu_type,
        nic_gbps=float(nic_gbps),
        inside=servers.chosen_inside(intra_gbps, inside),
    )
    owned = _gpus_of_groups(read_node_rows(path), date, date_column, total_column)
    entries = [entry for group, gpus in owned.items() for entry in _entries(group, gpus, whole)]
    return assembled(
        name=name,
        source=path,
        entries=racked(entries, servers_per_rack),
        wiring=Wiring(spines, oversubscription),
    )


def _gpus_of_groups(
    rows: NodeRows, date: str, date_column: str, total_column: str
) -> dict[str, int]:
    """GPUs of each virtual cluster on the day; checked against the file's own total."""
    day = rows.column(date_column, "topology.date_column")
    total = rows.column(total_column, "topology.total_column")
    days = [rows.text(row, day) for row in range(len(rows.rows))]
    if date not in days:
        raise TopologyError(
            f"{rows.path}: no row of {date!r}{nearest(date, days)}; days: {days[0]} to {days[-1]}"
        )
    row = days.index(date)
    owned = {
        group: rows.count(row, at, high=servers.MOST_GPUS)
        for at, group in enumerate(rows.header)
        if at not in (day, total)
    }
    if sum(owned.values()) != rows.count(row, total, high=servers.MOST_GPUS):
        raise rows.refusal(row, total, f"is not the sum of the clusters, {sum(owned.values())}")
    return {group: gpus for group, gpus in owned.items() if gpus}


def _entries(group: str, gpus: int, whole: Shape) -> Iterator[Entry]:
    for at, first in enumerate(range(0, gpus, whole.gpus)):
        shape = replace(whole, gpus=min(whole.gpus, gpus - first))
        yield Entry(name=f"{group}/{at}", shape=shape, rack="", pod="", group=group)
