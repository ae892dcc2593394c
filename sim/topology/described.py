"""Description file of a real cluster: YAML, with the servers in it or in a CSV file beside it."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from sim.errors import TopologyError, nearest
from sim.topology.inventory import (
    Entry,
    Marked,
    NodeRows,
    Shape,
    Wiring,
    assembled,
    read_marked_yaml,
    read_node_rows,
)
from sim.topology.servers import (
    MOST_GPUS_PER_SERVER,
    MOST_PORTS,
    MOST_SERVERS,
    ServerInside,
    flat_inside,
)
from sim.topology.topology import GpuKind, Topology


class Section:
    """A mapping of the file at a dotted place, such as `racks[2].servers`."""

    def __init__(self, path: str, place: str, marked: Marked, known: tuple[str, ...]) -> None:
        """Check that it is a mapping and that all its keys are among `known`."""
        self._path, self._place, self._line = path, place, marked.line
        if not isinstance(marked.value, dict):
            raise self._refusal(marked, place or "the file", "must be a mapping of keys to values")
        self._entries: dict[str, Marked] = marked.value
        for key, value in self._entries.items():
            if key not in known:
                raise TopologyError(
                    f"{path}, line {value.line}: {self.name(key)} is not a key"
                    f"{nearest(key, known)}; keys: {', '.join(known)}"
                )

    def name(self, key: str) -> str:
        """Dotted name of a key."""
        return f"{self._place}.{key}" if self._place else key

    def __contains__(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return key in self._entries and self._entries[key].value is not None

    def refusal(self, key: str, rule: str) -> TopologyError:
        """The error that the value at `key` breaks `rule`."""
        return self._refusal(self._entries[key], self.name(key), rule)

    def where(self, key: str) -> str:
        """File, line and dotted name of a key that is there."""
        return f"{self._path}, line {self.entry(key).line}: {self.name(key)}"

    def wrong(self, rule: str) -> TopologyError:
        """The error that this part as a whole breaks a rule."""
        return TopologyError(f"{self._path}, line {self._line}: {self._place} {rule}")

    def entry(self, key: str) -> Marked:
        """The value at `key` with its line; an error if it is missing."""
        if key not in self:
            raise TopologyError(
                f"{self._path}, line {self._line}: {self.name(key)} is missing; give it a value"
            )
        return self._entries[key]

    def number(self, key: str, *, low: float, high: float) -> float:
        """A number from `low` to `high`; with low 0 it must be above 0."""
        value = self.entry(key).value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(key, "must be a number")
        above = value > 0 if low == 0 else value >= low
        if not (above and value <= high and math.isfinite(value)):
            least = "above 0" if low == 0 else f"at least {low:g}"
            raise self.refusal(key, f"must be {least} and at most {high:g}")
        return float(value)

    def count(self, key: str, *, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self.entry(key).value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refusal(key, "must be a whole number")
        if not low <= value <= high:
            raise self.refusal(key, f"must be at least {low} and at most {high}")
        return value

    def text(self, key: str) -> str:
        """A word or text that is not blank."""
        value = self.entry(key).value
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(key, "must be a text; put it in quotation marks if it is a number")
        return value.strip()

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """One of `known`."""
        value = self.text(key)
        if value not in known:
            names = ", ".join(known)
            raise self.refusal(key, f"is not known{nearest(value, known)}; known: {names}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts that are not blank."""
        items = self._items(key)
        for item in items:
            if not isinstance(item.value, str) or not item.value.strip():
                raise self._refusal(item, self.name(key), "must be a text in quotation marks")
        return [item.value.strip() for item in items]

    def section(self, key: str, known: tuple[str, ...]) -> "Section":
        """The mapping at `key`."""
        return Section(self._path, self.name(key), self.entry(key), known)

    def sections(self, key: str, known: tuple[str, ...]) -> list["Section"]:
        """The list of mappings at `key`; not empty."""
        return [
            Section(self._path, f"{self.name(key)}[{at}]", item, known)
            for at, item in enumerate(self._items(key))
        ]

    def named_sections(self, key: str, known: tuple[str, ...]) -> Iterator[tuple[str, "Section"]]:
        """The mappings of a mapping at `key`, with their names; not empty."""
        marked = self.entry(key)
        if not isinstance(marked.value, dict) or not marked.value:
            raise self.refusal(key, "must be a mapping of names")
        for name, item in marked.value.items():
            yield name, Section(self._path, f"{self.name(key)}.{name}", item, known)

    def _items(self, key: str) -> list[Marked]:
        marked = self.entry(key)
        if not isinstance(marked.value, list) or not marked.value:
            raise self.refusal(key, "must be a list with at least one entry")
        return marked.value

    def _refusal(self, marked: Marked, name: str, rule: str) -> TopologyError:
        value = marked.value
        shown = f" is a {type(value).__name__}" if isinstance(value, dict | list) else (
            f" is {str(value)[:60]!r}")  # fmt: skip
        return TopologyError(f"{self._path}, line {marked.line}: {name}{shown}; it {rule}")


SHAPE = (
    "gpus", "gpu_type", "gpu_like", "gpu_speed", "gpu_memory_gib", "cpu_cores", "memory_gib",
    "nics", "intra_gbps", "inside",
)  # fmt: skip
NICS = ("count", "gbps")
INSIDE = tuple(ServerInside.__dataclass_fields__)
FASTEST_GBPS = 1e6
MOST_CORES = 1e6
MOST_GIB = 1e7
FASTEST = 1e4  # times as fast as another GPU
MOST_PARTS = 1024  # sockets, switches, islands of a server


def _shape(shape: Section) -> Shape:
    nics = shape.section("nics", NICS)
    cores = shape.number("cpu_cores", low=0, high=MOST_CORES) if "cpu_cores" in shape else None
    gib = shape.number("memory_gib", low=0, high=MOST_GIB) if "memory_gib" in shape else None
    return Shape(
        gpus=shape.count("gpus", low=1, high=MOST_GPUS_PER_SERVER),
        gpu_type=shape.text("gpu_type"),
        cpu_milli=None if cores is None else round(cores * 1000),
        memory_mib=None if gib is None else round(gib * 1024),
        nic_gbps=nics.count("count", low=1, high=MOST_PARTS)
        * nics.number("gbps", low=0, high=FASTEST_GBPS),
        inside=_inside(shape),
        kind=_kind(shape),
    )


def _kind(shape: Section) -> GpuKind:
    gib, speed = "gpu_memory_gib", "gpu_speed"
    return GpuKind(
        where=shape.where("gpu_type"),
        like=shape.text("gpu_like") if "gpu_like" in shape else None,
        speed=shape.number(speed, low=0, high=FASTEST) if speed in shape else None,
        memory_gib=shape.number(gib, low=0, high=MOST_GIB) if gib in shape else None,
    )


def _inside(shape: Section) -> ServerInside:
    if "inside" not in shape:
        return flat_inside(shape.number("intra_gbps", low=0, high=FASTEST_GBPS))
    if "intra_gbps" in shape:
        raise shape.refusal("intra_gbps", "must be left out where inside says more")
    inside = shape.section("inside", INSIDE)
    sockets = inside.count("sockets", low=1, high=MOST_PARTS)
    switches = inside.count("pcie_switches", low=1, high=MOST_PARTS)
    if switches % sockets:
        raise inside.refusal("pcie_switches", f"must be a multiple of the {sockets} sockets")
    islands = inside.count("nvlink_islands", low=0, high=MOST_PARTS)
    pcie_gbps = inside.number("pcie_gbps", low=0, high=FASTEST_GBPS)
    nvlink_gbps = pcie_gbps  # nothing reads it where there is no island
    if islands or "nvlink_gbps" in inside:
        nvlink_gbps = inside.number("nvlink_gbps", low=0, high=FASTEST_GBPS)
    return ServerInside(
        sockets=sockets, pcie_switches=switches, nvlink_islands=islands, nvlink_gbps=nvlink_gbps,
        pcie_gbps=pcie_gbps, socket_gbps=inside.number("socket_gbps", low=0, high=FASTEST_GBPS),
    )  # fmt: skip


REQUIRED = ("server", "rack", "shape")
OPTIONAL = ("pod", "group")


def read_shaped_nodes(path: str, shapes: Mapping[str, Shape]) -> list[Entry]:
    """The servers of a file with the columns server, rack, shape and perhaps pod and group.

    Raises:
        TopologyError: naming file, line, column, value and fix.
    """
    rows = read_node_rows(path)
    known = (*REQUIRED, *OPTIONAL)
    for column in rows.header:
        if column not in known:
            raise TopologyError(
                f"{path}, line 1: column '{column}' is not known{nearest(column, known)}; "
                f"columns: {', '.join(known)}"
            )
    return list(_entries(rows, shapes))


def _entries(rows: NodeRows, shapes: Mapping[str, Shape]) -> Iterator[Entry]:
    server, rack, shape = (rows.column(name) for name in REQUIRED)
    pod, group = (rows.column(x) if x in rows.header else None for x in OPTIONAL)
    names: set[str] = set()
    for row in range(len(rows.rows)):
        name = _name(rows, row, server)
        if name in names:
            raise rows.refusal(row, server, "stands there twice; names of servers differ")
        names.add(name)
        kind = rows.text(row, shape)
        if kind not in shapes:
            hint = nearest(kind, shapes)
            raise rows.refusal(row, shape, f"is no shape{hint}; shapes: {', '.join(shapes)}")
        yield Entry(
            name=name,
            shape=shapes[kind],
            rack=_name(rows, row, rack),
            pod="" if pod is None else rows.text(row, pod),
            group="" if group is None else rows.text(row, group),
        )


def _name(rows: NodeRows, row: int, column: int) -> str:
    text = rows.text(row, column)
    if not text:
        raise rows.refusal(row, column, "is blank; give it a name")
    return text


RACK = ("name", "pod", "uplink_gbps", "servers")
SERVERS = ("shape", "count", "names", "group")


def read_racks(top: Section, shapes: Mapping[str, Shape]) -> tuple[list[Entry], dict[str, float]]:
    """Servers below `racks` as in the file, and racks' uplinks (Gbps); TopologyError if wrong."""
    entries: list[Entry] = []
    uplinks: dict[str, float] = {}
    racks: set[str] = set()
    names: set[str] = set()
    for rack in top.sections("racks", RACK):
        rack_name = rack.text("name")
        if rack_name in racks:
            raise rack.refusal("name", "stands there twice; names of racks differ")
        racks.add(rack_name)
        if "uplink_gbps" in rack:
            uplinks[rack_name] = rack.number("uplink_gbps", low=0, high=FASTEST_GBPS * MOST_PORTS)
        pod = rack.text("pod") if "pod" in rack else ""
        first = len(entries)
        for part in rack.sections("servers", SERVERS):
            shape = shapes[part.one_of("shape", tuple(shapes))]
            group = part.text("group") if "group" in part else ""
            for name in _names(part, rack_name, len(entries) - first):
                if name in names:
                    raise part.wrong(f"holds a second server {name!r}; names of servers differ")
                names.add(name)
                entries.append(Entry(name=name, shape=shape, rack=rack_name, pod=pod, group=group))
            if len(entries) > MOST_SERVERS:
                raise part.wrong(f"makes more than {MOST_SERVERS} servers; at most so many work")
    return entries, uplinks


def _names(part: Section, rack: str, first: int) -> list[str]:
    """Names of the servers of one entry: those given, or the rack's name and a number."""
    if ("count" in part) == ("names" in part):
        raise part.wrong("needs either count or names of its servers, and not both")
    if "names" in part:
        return part.texts("names")
    count = part.count("count", low=1, high=MOST_SERVERS)
    return [f"{rack}/{first + at}" for at in range(count)]


TOP = ("fabric", "shapes", "racks", "nodes")
FABRIC = ("spines", "oversubscription", "pod_oversubscription")
MOST_OVERSUBSCRIBED = 1e4


def described(*, name: str | None, path: str) -> Topology:
    """Build the cluster that a description file describes; docs/clusters.md has the format.

    `name` is what reports call it; None: the file's name without its ending.

    Raises:
        TopologyError: naming file, line, key, value and fix.
    """
    top = Section(path, "", read_marked_yaml(path), TOP)
    named = top.named_sections("shapes", SHAPE)
    shapes = {name: _shape(section) for name, section in named}
    if ("racks" in top) == ("nodes" in top):
        raise TopologyError(f"{path}: the servers stand either below racks or in the file at nodes")
    uplinks: dict[str, float] = {}
    if "racks" in top:
        entries, uplinks = read_racks(top, shapes)
    else:
        nodes = Path(path).expanduser().parent / Path(top.text("nodes")).expanduser()
        entries = read_shaped_nodes(str(nodes), shapes)
    wiring = _wiring(top.section("fabric", FABRIC), uplinks)
    _check_pods(path, entries, wiring)
    return assembled(name=name or Path(path).stem, source=path, entries=entries, wiring=wiring)


def _wiring(fabric: Section, uplinks: Mapping[str, float]) -> Wiring:
    pods = "pod_oversubscription"
    high = MOST_OVERSUBSCRIBED
    return Wiring(
        spines=fabric.count("spines", low=1, high=MOST_PORTS),
        oversubscription=fabric.number("oversubscription", low=0, high=high),
        pod_oversubscription=fabric.number(pods, low=0, high=high) if pods in fabric else None,
        rack_uplink_gbps=uplinks,
    )


def _check_pods(path: str, entries: list[Entry], wiring: Wiring) -> None:
    without = next((entry for entry in entries if not entry.pod), None)
    some = any(entry.pod for entry in entries)
    if wiring.pod_oversubscription is None and some:
        raise TopologyError(
            f"{path}: racks are in pods, but fabric.pod_oversubscription is missing; give it"
        )
    if wiring.pod_oversubscription is not None and without is not None:
        raise TopologyError(
            f"{path}: rack {without.rack!r} names no pod; with fabric.pod_oversubscription every "
            f"rack needs one"
        )
