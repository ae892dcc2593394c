"""Clusters from public node lists: one row a server, or a row for several, columns by mapping."""

from collections.abc import Mapping

from sim.errors import TopologyError
from sim.topology.inventory import Shape, Wiring, assembled
from sim.topology.layout import chosen_layout
from sim.topology.node_cells import NodeCells, node_cells
from sim.topology.node_entries import node_entries, renamed
from sim.topology.node_rows import read_node_rows
from sim.topology.option_rules import check_gpus
from sim.topology.racking import racked
from sim.topology.topology import Topology


def node_list(
    *,
    name: str,
    path: str,
    columns: Mapping[str, str | list[str] | None],
    gpus: int | None,
    gpu_type: str | None,
    type_names: Mapping[str, str] | None,
    servers_per_rack: int | None,
    spines: int,
    oversubscription: float,
    pod_oversubscription: float | None,
    nic_gbps: float,
    intra_gbps: float | None,
    inside: Mapping[str, float] | None,
) -> Topology:
    """Build a cluster from a CSV node list; conf/topology/node_list.yaml explains each option.

    Raises:
        TopologyError: naming file, line, column or key, value and fix.
    """
    cells = node_cells(read_node_rows(path), columns)
    _check_silence(cells, gpus, gpu_type, pod_oversubscription)
    missing = Shape(
        gpus=gpus or 0,
        gpu_type=gpu_type or "",
        cpu_milli=None,
        memory_mib=None,
        nic_gbps=float(nic_gbps),
        layout=chosen_layout(intra_gbps, inside),
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
        wiring=Wiring(
            spines=spines,
            oversubscription=oversubscription,
            pod_oversubscription=pod_oversubscription,
            rack_uplink_gbps={},
        ),
    )


def _check_silence(
    cells: NodeCells, gpus: int | None, gpu_type: str | None, pod_oversubscription: float | None
) -> None:
    """Raise TopologyError where neither the file nor the configuration says a thing."""
    if "gpus" not in cells:
        if gpus is None:
            raise TopologyError("topology.gpus is null and no column holds it; give one of them")
        check_gpus("gpus", gpus)
    if "gpu_type" not in cells and not gpu_type:
        raise TopologyError("topology.gpu_type is null and no column holds it; give one of them")
    if ("pod" in cells) != (pod_oversubscription is not None):
        raise TopologyError(
            "topology.pod_oversubscription and topology.columns.pod go together; give both or none"
        )
