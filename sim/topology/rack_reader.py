"""Racks of a description file with their servers."""

from collections.abc import Mapping

from sim.topology.inventory import Entry, Shape
from sim.topology.option_rules import MOST_PORTS, MOST_SERVERS
from sim.topology.section import Section
from sim.topology.shape_reader import FASTEST_GBPS

RACK = ("name", "pod", "uplink_gbps", "servers")
SERVERS = ("shape", "count", "names", "group")


def read_racks(top: Section, shapes: Mapping[str, Shape]) -> tuple[list[Entry], dict[str, float]]:
    """The servers below `racks`, in the file's order, and the uplinks that racks state (Gbps).

    Raises:
        TopologyError: naming file, line, key, value and rule.
    """
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
