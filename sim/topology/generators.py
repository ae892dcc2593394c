"""Generators: leaf-spine, fat-tree(k), VL2, and BCube(n, k), whose servers relay."""

from collections.abc import Mapping

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TopologyError
from sim.topology.links import LinkGraph, link_graph, tree_links
from sim.topology.servers import MOST_GPUS, MOST_PORTS, check_counts, check_rates, dealt_servers
from sim.topology.topology import Topology

SMALLEST_SWITCH = 2  # ports
LONGEST_ADDRESS = 24  # digits: more than that is a typing error


def bcube(
    *, name: str, n: int, k: int, gpus_per_server: int | list[int], gpu_types: list[str],
    intra_gbps: float, port_gbps: float, cpu_milli: int | None = None,
    memory_mib: int | None = None, inside: Mapping[str, float] | None = None,
) -> Topology:  # fmt: skip
    """Build the network of Guo et al., SIGCOMM 2009, section 3.1.

    The n^(k+1) servers have addresses of k + 1 digits in base n; those that differ in digit i only
    share an n-port switch of level i, at `port_gbps` each. A rack is what hangs below one level-0
    switch; all other ports of its servers lead out of it. The rest is explained at `dealt_servers`.
    """
    check_counts({"n": n, "k": k})
    if n < SMALLEST_SWITCH:
        raise TopologyError(f"topology.n is {n}; a switch of BCube has at least 2 ports")
    if k >= LONGEST_ADDRESS or n ** (k + 1) > MOST_GPUS:
        raise TopologyError(
            f"topology.n is {n} and topology.k is {k}: more than {MOST_GPUS} servers"
        )
    servers = n ** (k + 1)
    built = dealt_servers(
        servers=servers, gpus_per_server=gpus_per_server, gpu_types=gpu_types,
        intra_gbps=intra_gbps, nic_gbps=port_gbps, cpu_milli=cpu_milli, memory_mib=memory_mib,
        inside=inside,
    )  # fmt: skip
    return built.wired(
        name=name,
        server_rack=np.arange(servers) // n,
        uplink_gbps=np.full(servers // n, n * k * float(port_gbps)),
        links=_links(n, k + 1, port_gbps),
    )


def _links(n: int, levels: int, port_gbps: float) -> LinkGraph:
    """Port i of server s leads to the level-i switch that s without its digit i numbers."""
    servers, switches = n**levels, n ** (levels - 1)
    server = np.arange(servers)
    upper = [
        servers + level * switches + server // n ** (level + 1) * n**level + server % n**level
        for level in range(levels)
    ]
    return link_graph(
        level_names=("server", *(f"level-{level} switch" for level in range(levels))),
        level_sizes=(servers, *([switches] * levels)),
        lower=np.tile(server, levels),
        upper=np.concatenate(upper),
        gbps=np.full(levels * servers, float(port_gbps)),
        digits=(n, levels),
    )


def fat_tree(
    *, name: str, k: int, servers: int | None, gpus_per_server: int | list[int],
    gpu_types: list[str], intra_gbps: float, nic_gbps: float, fabric_gbps: float,
    cpu_milli: int | None = None, memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:  # fmt: skip
    """Build the fat-tree of Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 3.

    Switches have `k` ports, k even. A rack is what hangs below one edge switch: k / 2 servers at
    `nic_gbps`; links between switches have `fabric_gbps`. Of the k^3 / 4 places the first `servers`
    are filled (None: all); pods and edge switches without a server are left out. The rest is
    explained at `dealt_servers`.
    """
    check_counts({"k": k}, MOST_PORTS)
    if k % 2:
        raise TopologyError(f"topology.k is {k}; the ports of a fat-tree's switch are even")
    places = k**3 // 4
    filled = places if servers is None else servers
    check_counts({"servers": filled})
    if filled > places:
        raise TopologyError(f"topology.servers is {filled}; a fat-tree of k={k} has {places}")
    check_rates({"fabric_gbps": fabric_gbps})
    built = dealt_servers(
        servers=filled, gpus_per_server=gpus_per_server, gpu_types=gpu_types, intra_gbps=intra_gbps,
        nic_gbps=nic_gbps, cpu_milli=cpu_milli, memory_mib=memory_mib, inside=inside,
    )  # fmt: skip
    rack = np.arange(filled) // (k // 2)
    return built.wired(
        name=name,
        server_rack=rack,
        uplink_gbps=np.full(int(rack[-1]) + 1, k // 2 * float(fabric_gbps)),
        links=_links_fat_tree(k, filled, nic_gbps, fabric_gbps),
    )


def _links_fat_tree(k: int, servers: int, nic_gbps: float, fabric_gbps: float) -> LinkGraph:
    """Aggregation switch i of a pod leads to cores i * k / 2 to (i + 1) * k / 2 - 1."""
    half = k // 2
    edges = -(-servers // half)
    pods = -(-edges // half)
    server, edge = np.arange(servers), np.repeat(np.arange(edges), half)
    agg_of_edge = edge // half * half + np.tile(np.arange(half), edges)
    agg = np.repeat(np.arange(pods * half), half)
    core_of_agg = agg % half * half + np.tile(np.arange(half), pods * half)
    return tree_links(
        ("server", "edge", "aggregation", "core"),
        (servers, edges, pods * half, half * half),
        (server, server // half, nic_gbps),
        (edge, agg_of_edge, fabric_gbps),
        (agg, core_of_agg, fabric_gbps),
    )


def leaf_spine(
    *, name: str, servers: int, gpus_per_server: int | list[int], servers_per_rack: int,
    gpu_types: list[str], intra_gbps: float, nic_gbps: float, oversubscription: float,
    spines: int = 1, cpu_milli: int | None = None, memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:  # fmt: skip
    """Build a leaf-spine cluster; server s has GPU type `gpu_types[s % len(gpu_types)]`.

    A rack's uplink carries its servers' NIC bandwidth divided by `oversubscription`, spread evenly
    over one link to each of the `spines`; the last rack may hold fewer servers. One spine stands
    for a spine whose links are shared perfectly. The rest is explained at `dealt_servers`.
    """
    check_counts({"servers": servers, "servers_per_rack": servers_per_rack})
    check_counts({"spines": spines}, MOST_PORTS)
    check_rates({"oversubscription": oversubscription})
    built = dealt_servers(
        servers=servers, gpus_per_server=gpus_per_server, gpu_types=gpu_types,
        intra_gbps=intra_gbps, nic_gbps=nic_gbps, cpu_milli=cpu_milli, memory_mib=memory_mib,
        inside=inside,
    )  # fmt: skip
    rack = np.arange(servers) // servers_per_rack
    uplink_gbps = np.bincount(rack).astype(np.float64) * (nic_gbps / oversubscription)
    return built.wired(
        name=name,
        server_rack=rack,
        uplink_gbps=uplink_gbps,
        links=leaf_spine_links(rack, built.nic_gbps, uplink_gbps, spines),
    )


def leaf_spine_links(
    server_rack: IntArray, nic_gbps: FloatArray, uplink_gbps: FloatArray, spines: int
) -> LinkGraph:
    """Links server s - leaf of its rack, and every leaf - every spine.

    Args:
        server_rack: (S,)
        nic_gbps: (S,)
        uplink_gbps: (R,) of each leaf, all its links together.
        spines: number of spine switches.
    """
    servers, racks = len(server_rack), len(uplink_gbps)
    leaf = np.repeat(np.arange(racks), spines)
    return tree_links(
        ("server", "leaf", "spine"),
        (servers, racks, spines),
        (np.arange(servers), server_rack, nic_gbps),
        (leaf, np.tile(np.arange(spines), racks), np.repeat(uplink_gbps / spines, spines)),
    )


def vl2(
    *, name: str, aggregation_ports: int, intermediate_ports: int, servers_per_rack: int,
    gpus_per_server: int | list[int], gpu_types: list[str], intra_gbps: float, nic_gbps: float,
    fabric_gbps: float, cpu_milli: int | None = None, memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:  # fmt: skip
    """Build the network of Greenberg et al., SIGCOMM 2009, section 4.1.

    With D_A `aggregation_ports` and D_I `intermediate_ports`, both even, there are D_I aggregation
    switches, D_A / 2 intermediate switches and D_A * D_I / 4 racks. Rack switches 0 to D_A / 2 - 1
    lead to aggregation switches 0 and 1, the next ones to 2 and 3, and so on. Links between
    switches have `fabric_gbps`, ten times `nic_gbps` in the paper. The rest is explained at
    `dealt_servers`.
    """
    ports = {"aggregation_ports": aggregation_ports, "intermediate_ports": intermediate_ports}
    check_counts(ports | {"servers_per_rack": servers_per_rack})
    for key, value in ports.items():
        if value % 2:
            raise TopologyError(f"topology.{key} is {value}; it must be even in VL2")
    check_rates({"fabric_gbps": fabric_gbps})
    racks = aggregation_ports * intermediate_ports // 4
    built = dealt_servers(
        servers=racks * servers_per_rack, gpus_per_server=gpus_per_server, gpu_types=gpu_types,
        intra_gbps=intra_gbps, nic_gbps=nic_gbps, cpu_milli=cpu_milli, memory_mib=memory_mib,
        inside=inside,
    )  # fmt: skip
    rack = np.repeat(np.arange(racks), servers_per_rack)
    return built.wired(
        name=name,
        server_rack=rack,
        uplink_gbps=np.full(racks, 2.0 * fabric_gbps),
        links=_links_vl2(
            aggregation_ports, intermediate_ports, servers_per_rack, nic_gbps, fabric_gbps
        ),
    )


def _links_vl2(
    d_a: int, d_i: int, servers_per_rack: int, nic_gbps: float, fabric_gbps: float
) -> LinkGraph:
    racks, intermediates = d_a * d_i // 4, d_a // 2
    server, rack = np.arange(racks * servers_per_rack), np.repeat(np.arange(racks), 2)
    agg_of_rack = rack // (d_a // 2) * 2 + np.tile([0, 1], racks)
    agg = np.repeat(np.arange(d_i), intermediates)
    return tree_links(
        ("server", "rack", "aggregation", "intermediate"),
        (len(server), racks, d_i, intermediates),
        (server, server // servers_per_rack, nic_gbps),
        (rack, agg_of_rack, fabric_gbps),
        (agg, np.tile(np.arange(intermediates), d_i), fabric_gbps),
    )
