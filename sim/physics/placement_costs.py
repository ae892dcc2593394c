"""What a network model charges one job alone for each placement: latency, and seconds a byte."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.catalogue import Catalogue
from sim.physics.communication import Spread, told_s
from sim.physics.link_load import exposed_seconds
from sim.physics.link_network import LinkNetwork
from sim.physics.link_reference import placement_seconds
from sim.physics.network_tables import NetworkTables
from sim.topology.leaf_spine import leaf_spine
from sim.topology.topology import Topology

Placement = tuple[int, ...]
PROBE_BYTES = (1e9, 2e9)  # two sizes give the line


@dataclass(frozen=True)
class Machines:
    """Equal servers of one rack, as many as the placements need."""

    gpus_per_server: int
    intra_gbps: float
    nic_gbps: float
    inside: Mapping[str, float] | None  # layout, see `sim.topology.layout`

    def topology(self, servers: int) -> Topology:
        """A rack of `servers`."""
        return leaf_spine(
            name="measured",
            servers=servers,
            gpus_per_server=self.gpus_per_server,
            servers_per_rack=servers,
            gpu_types=["measured"],
            intra_gbps=self.intra_gbps,
            nic_gbps=self.nic_gbps,
            oversubscription=1.0,
            inside=self.inside,
        )


@dataclass(frozen=True)
class Cost:
    """Straight line in the bytes of the gradient."""

    latency_s: float
    s_per_byte: float


Costs = Mapping[Placement, Cost]


class LinkModel(Protocol):
    """A network model that charges by links."""

    def links(self, catalogue: Catalogue, topology: Topology) -> LinkNetwork:
        """The link network over the catalogue."""


class TableModel(Protocol):
    """A network model that charges by tables over the spread."""

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """The tables over the catalogue."""


def link_costs(model: LinkModel, machines: Machines, placements: Iterable[Placement]) -> Costs:
    """Costs of each placement through the links."""
    distinct = sorted(set(placements))
    topology = machines.topology(max(map(len, distinct)))
    network = model.links(_probes(), topology)
    return {
        each: _line([_link_s(network, topology, probe, each) for probe in range(2)])
        for each in distinct
    }


def table_costs(model: TableModel, machines: Machines, placements: Iterable[Placement]) -> Costs:
    """Costs of each placement by the tables, alone on its links."""
    distinct = sorted(set(placements))
    tables = model.tables(_probes(), machines.topology(max(map(len, distinct))))
    return {
        each: _line([told_s(tables, probe, Spread(max(each), len(each), 1)) for probe in range(2)])
        for each in distinct
    }


def cost_columns(costs: Costs, placements: list[Placement]) -> tuple[FloatArray, FloatArray]:
    """(N,) latency and (N,) seconds a byte of N placements."""
    latency_s = np.array([costs[placement].latency_s for placement in placements])
    return latency_s, np.array([costs[placement].s_per_byte for placement in placements])


def _link_s(network: LinkNetwork, topology: Topology, probe: int, placement: Placement) -> float:
    gpus = _gpus_of(placement, topology)
    if len(gpus) == 1:
        return 0.0
    return float(exposed_seconds(network, *placement_seconds(network, topology, probe, gpus)))


def _gpus_of(placement: Placement, topology: Topology) -> IntArray:
    """The first GPUs of servers 0, 1, ..."""
    first = topology.server_first_gpu
    parts = [first[server] + np.arange(count) for server, count in enumerate(placement)]
    return np.concatenate(parts).astype(np.int64)


def _line(seconds: list[float]) -> Cost:
    slope = (seconds[1] - seconds[0]) / (PROBE_BYTES[1] - PROBE_BYTES[0])
    return Cost(latency_s=seconds[0] - slope * PROBE_BYTES[0], s_per_byte=slope)


def _probes() -> Catalogue:
    """Two profiles that differ in bytes only."""
    return Catalogue(
        names=("probe/1", "probe/2"),
        gpu_types=("measured",),
        compute_s=np.ones((2, 1)),
        sync_bytes=np.array(PROBE_BYTES),
        gang_ok=np.ones(2, dtype=np.bool_),
        source="probe",
    )
