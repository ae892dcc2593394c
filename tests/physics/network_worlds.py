"""Small clusters and link networks that the network tests share."""

from typing import Any

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.arrays import FloatArray, IntArray, RowArray
from sim.physics.catalogue import Catalogue
from sim.physics.job_load import local_load, measure_placement
from sim.physics.link_network import MAX_MIN, LinkNetwork, make_link_network, server_flows
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.physics.reference import LoneJob
from sim.physics.shared_links import link_tables
from sim.physics.traffic import FLOW, GANG, RING, CommGraph, Traffic, flows_per_worker, traffic_rows
from sim.topology.generators import leaf_spine
from sim.topology.topology import Topology
from tests.contract.compositions import CONF

GB = 1e9 / 8.0  # bytes in a gigabit: a link of 1 Gbps moves that many a second


def built(path: str) -> Any:
    """What a file of `conf/` makes."""
    return instantiate(OmegaConf.load(CONF / path), _convert_="all")


def catalogue_of(profiles: int) -> Catalogue:
    return Catalogue(
        names=tuple(f"m{p}/1" for p in range(profiles)), gpu_types=("p100",),
        compute_s=np.ones((profiles, 1)), sync_bytes=np.full(profiles, GB),
        gang_ok=np.ones(profiles, dtype=np.bool_), source="random",
    )  # fmt: skip


def traffic_of(*rows: dict[str, float]) -> Traffic:
    """One profile a row; what a row does not say is a ring of 1 gigabit."""
    plain = {"pattern": RING, "grad_bytes": GB, "ps_count": 1, "stages": 1, "tensor_width": 1,
             "activation_bytes": 0.0, "tensor_bytes": 0.0}  # fmt: skip
    full = [plain | row for row in rows]
    floats = {"grad_bytes", "activation_bytes", "tensor_bytes"}
    return Traffic(**{
        key: np.array([row[key] for row in full], dtype=np.float64 if key in floats else np.int64)
        for key in Traffic._fields
    })  # fmt: skip


def racks(*, servers: int = 4, per_rack: int = 2, gpus: int | list[int] = 4,
          oversubscription: float = 2.0, nic_gbps: float = 10.0, intra_gbps: float = 100.0,
          inside: dict[str, float] | None = None) -> Topology:  # fmt: skip
    return leaf_spine(
        name="c", servers=servers, gpus_per_server=gpus, servers_per_rack=per_rack,
        gpu_types=["p100"], intra_gbps=intra_gbps, nic_gbps=nic_gbps,
        oversubscription=oversubscription,
        inside=inside,
    )  # fmt: skip


def network_of(topology: Topology, traffic: Traffic, **changed: float) -> LinkNetwork:
    constants = {"sharing": MAX_MIN, "overlap_frac": 0.0, "alpha_local_s": 0.0,
                 "alpha_server_s": 0.0, "eta_frac": 0.0} | changed  # fmt: skip
    return make_link_network(
        traffic=traffic,
        catalogue=catalogue_of(len(traffic.pattern)),
        topology=topology,
        **constants,
    )


def linked(topology: Topology, *rows: dict[str, float], **changed: float) -> Physics:
    """Physics of shared links and nothing else, a profile a row of traffic."""
    links, catalogue = network_of(topology, traffic_of(*rows), **changed), catalogue_of(len(rows))
    ones = np.ones((1, len(rows), len(rows)))
    return Physics(
        catalogue=catalogue, pairs=PairTable(ones, ones > 0, "none"),
        network=link_tables(links, catalogue, topology), reference_gpu="p100", links=links,
    )  # fmt: skip


def placement_seconds(
    network: LinkNetwork, topology: Topology, profile: int, gpus: IntArray
) -> tuple[float, float]:
    """`LoneJob.seconds` of one placement."""
    return LoneJob(network, topology, len(gpus)).seconds(profile, gpus)


def between_servers(graph: CommGraph, host: IntArray, servers: int) -> FloatArray:
    """(servers, servers) bytes from server to server; `host` (workers,) is where each runs."""
    matrix = np.zeros((servers, servers))
    np.add.at(matrix, (host[graph.source], host[graph.target]), graph.num_bytes)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def measured(hosts: list[int]) -> tuple[RowArray, int]:
    """Rows of a gang whose worker i is on server `hosts[i]`; the number of servers."""
    gang = np.zeros(len(hosts), dtype=GANG)
    return gang, measure_placement(np.arange(len(hosts)), np.array(hosts), gang)


def flow_list(traffic: Traffic, hosts: list[int]) -> tuple[list[tuple[int, int, float]], int]:
    flow = np.zeros(len(hosts) * flows_per_worker(traffic), dtype=FLOW)
    gang, servers = measured(hosts)
    count, steps = server_flows(traffic_rows(traffic)[0], gang, servers, flow)
    return flow[:count].tolist(), steps


def flows_of(traffic: Traffic, *hosts: int) -> tuple[dict[tuple[int, int], float], int]:
    """Bytes by (source, target), flows of a pair added, and steps."""
    total: dict[tuple[int, int], float] = {}
    flows, steps = flow_list(traffic, list(hosts))
    for source, target, num_bytes in flows:
        total[source, target] = total.get((source, target), 0.0) + num_bytes
    return total, steps


def local_of(traffic: Traffic, *hosts: int) -> list[tuple[float, int]]:
    """Bytes and steps inside each server, servers as first named."""
    gang, servers = measured(list(hosts))
    row, first, found = traffic_rows(traffic)[0], 0, []
    for position in range(servers):
        found.append(local_load(row, gang, len(hosts), position, first))
        first += int(gang["gpus_on"][position])
    assert not gang["tally"].any(), "scratch is not left clean"
    return found
