"""Clusters from a table of days by virtual clusters that holds numbers of GPUs (Helios)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sim.errors import TopologyError
from sim.topology.inventory import Entry, Shape, Wiring, assembled
from sim.topology.layout import chosen_layout
from sim.topology.nearest import nearest
from sim.topology.node_rows import NodeRows, read_node_rows
from sim.topology.option_rules import MOST_GPUS, check_gpus
from sim.topology.racking import racked
from sim.topology.topology import Topology


def vc_gpus(
    *,
    name: str,
    path: str,
    date: str,
    date_column: str,
    total_column: str,
    gpus_per_server: int,
    gpu_type: str,
    servers_per_rack: int,
    spines: int,
    oversubscription: float,
    nic_gbps: float,
    intra_gbps: float | None,
    inside: Mapping[str, float] | None,
) -> Topology:
    """Build the cluster that virtual clusters made up on one day.

    A virtual cluster of n GPUs becomes n / gpus_per_server servers of its group, the last one
    smaller where that does not divide; racks follow `racking.racked`. The options are explained in
    conf/topology/helios_venus_vcs.yaml.

    Raises:
        TopologyError: naming file, line, column or key, value and fix.
    """
    check_gpus("gpus_per_server", gpus_per_server)
    whole = Shape(
        gpus=gpus_per_server,
        gpu_type=gpu_type,
        cpu_milli=None,
        memory_mib=None,
        nic_gbps=float(nic_gbps),
        layout=chosen_layout(intra_gbps, inside),
    )
    owned = _gpus_of_groups(read_node_rows(path), date, date_column, total_column)
    entries = [entry for group, gpus in owned.items() for entry in _entries(group, gpus, whole)]
    return assembled(
        name=name,
        source=path,
        entries=racked(entries, servers_per_rack),
        wiring=Wiring(
            spines=spines,
            oversubscription=oversubscription,
            pod_oversubscription=None,
            rack_uplink_gbps={},
        ),
    )


def _gpus_of_groups(
    rows: NodeRows, date: str, date_column: str, total_column: str
) -> dict[str, int]:
    """GPUs of each virtual cluster on the day; checked against the file's own total."""
    day, total = rows.column(date_column), rows.column(total_column)
    days = [rows.text(row, day) for row in range(len(rows.rows))]
    if date not in days:
        raise TopologyError(
            f"{rows.path}: no row of {date!r}{nearest(date, days)}; days: {days[0]} to {days[-1]}"
        )
    row = days.index(date)
    owned = {
        group: rows.count(row, at, high=MOST_GPUS)
        for at, group in enumerate(rows.header)
        if at not in (day, total)
    }
    if sum(owned.values()) != rows.count(row, total, high=MOST_GPUS):
        raise rows.refusal(row, total, f"is not the sum of the clusters, {sum(owned.values())}")
    return {group: gpus for group, gpus in owned.items() if gpus}


def _entries(group: str, gpus: int, whole: Shape) -> Iterator[Entry]:
    for at, first in enumerate(range(0, gpus, whole.gpus)):
        shape = replace(whole, gpus=min(whole.gpus, gpus - first))
        yield Entry(name=f"{group}/{at}", shape=shape, rack="", pod="", group=group)
