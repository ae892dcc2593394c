"""Description file of a real cluster: YAML, with the servers in it or in a CSV file beside it."""

from collections.abc import Mapping
from pathlib import Path

from sim.errors import TopologyError
from sim.topology.inventory import Entry, Wiring, assembled
from sim.topology.marked_yaml import read_marked_yaml
from sim.topology.option_rules import MOST_PORTS
from sim.topology.rack_reader import read_racks
from sim.topology.section import Section
from sim.topology.shape_reader import read_shapes
from sim.topology.shaped_nodes import read_shaped_nodes
from sim.topology.topology import Topology

TOP = ("fabric", "shapes", "racks", "nodes")
FABRIC = ("spines", "oversubscription", "pod_oversubscription")
MOST_OVERSUBSCRIBED = 1e4


def described(*, name: str | None, path: str) -> Topology:
    """Build the cluster that a description file describes; docs/clusters.md has the format.

    Args:
        name: of the cluster in reports; None: the file's name without its ending.
        path: the file.

    Raises:
        TopologyError: naming file, line, key, value and fix.
    """
    top = Section(path, "", read_marked_yaml(path), TOP)
    shapes = read_shapes(top)
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
