"""Fat-tree(k) generator: pods of edge and aggregation switches with k ports, below a core."""

from collections.abc import Mapping

import numpy as np

from sim.errors import TopologyError
from sim.topology.links import LinkGraph, link_graph
from sim.topology.option_rules import check_ports, check_rates
from sim.topology.servers import dealt_servers
from sim.topology.topology import Topology


def fat_tree(
    *,
    name: str,
    k: int,
    servers: int | None,
    gpus_per_server: int | list[int],
    gpu_types: list[str],
    intra_gbps: float,
    nic_gbps: float,
    fabric_gbps: float,
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:
    """Build the fat-tree of Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 3.

    Switches have `k` ports, k even. A rack is what hangs below one edge switch: k / 2 servers at
    `nic_gbps`; links between switches have `fabric_gbps`. Of the k^3 / 4 places the first `servers`
    are filled (None: all); pods and edge switches without a server are left out. The rest is
    explained at `dealt_servers`.
    """
    check_ports("k", k)
    if k % 2:
        raise TopologyError(f"topology.k is {k}; the ports of a fat-tree's switch are even")
    places = k**3 // 4
    filled = places if servers is None else servers
    if filled > places:
        raise TopologyError(f"topology.servers is {filled}; a fat-tree of k={k} has {places}")
    check_rates({"fabric_gbps": fabric_gbps})
    built = dealt_servers(
        servers=filled,
        gpus_per_server=gpus_per_server,
        gpu_types=gpu_types,
        intra_gbps=intra_gbps,
        nic_gbps=nic_gbps,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        inside=inside,
    )
    rack = np.arange(filled) // (k // 2)
    return built.wired(
        name=name,
        server_rack=rack,
        uplink_gbps=np.full(int(rack[-1]) + 1, k // 2 * float(fabric_gbps)),
        links=_links(k, filled, nic_gbps, fabric_gbps),
    )


def _links(k: int, servers: int, nic_gbps: float, fabric_gbps: float) -> LinkGraph:
    """Aggregation switch i of a pod leads to cores i * k / 2 to (i + 1) * k / 2 - 1."""
    half = k // 2
    edges = -(-servers // half)
    pods = -(-edges // half)
    first_edge, first_agg = servers, servers + edges
    first_core = first_agg + pods * half
    edge = np.repeat(np.arange(edges), half)
    agg_of_edge = edge // half * half + np.tile(np.arange(half), edges)
    agg = np.repeat(np.arange(pods * half), half)
    core_of_agg = agg % half * half + np.tile(np.arange(half), pods * half)
    lower = [np.arange(servers), first_edge + edge, first_agg + agg]
    upper = [
        first_edge + np.arange(servers) // half,
        first_agg + agg_of_edge,
        first_core + core_of_agg,
    ]
    rates = [np.full(servers, nic_gbps), np.full(len(edge) + len(agg), fabric_gbps)]
    return link_graph(
        level_names=("server", "edge", "aggregation", "core"),
        level_sizes=(servers, edges, pods * half, half * half),
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        gbps=np.concatenate(rates),
    )
