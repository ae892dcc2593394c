"""Leaf-spine generator: racks of servers below leaf switches, every leaf below every spine."""

from collections.abc import Mapping

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.topology.links import LinkGraph, link_graph
from sim.topology.option_rules import check_counts, check_ports, check_rates
from sim.topology.servers import dealt_servers
from sim.topology.topology import Topology


def leaf_spine(
    *,
    name: str,
    servers: int,
    gpus_per_server: int | list[int],
    servers_per_rack: int,
    gpu_types: list[str],
    intra_gbps: float,
    nic_gbps: float,
    oversubscription: float,
    spines: int = 1,
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:
    """Build a leaf-spine cluster; server s has GPU type `gpu_types[s % len(gpu_types)]`.

    A rack's uplink carries its servers' NIC bandwidth divided by `oversubscription`, spread evenly
    over one link to each of the `spines`; the last rack may hold fewer servers. One spine stands
    for a spine whose links are shared perfectly. The rest is explained at `dealt_servers`.
    """
    check_counts({"servers": servers, "servers_per_rack": servers_per_rack})
    check_ports("spines", spines)
    check_rates({"oversubscription": oversubscription})
    built = dealt_servers(
        servers=servers,
        gpus_per_server=gpus_per_server,
        gpu_types=gpu_types,
        intra_gbps=intra_gbps,
        nic_gbps=nic_gbps,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        inside=inside,
    )
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
    spine = np.tile(np.arange(spines), racks)
    return link_graph(
        level_names=("server", "leaf", "spine"),
        level_sizes=(servers, racks, spines),
        lower=np.concatenate([np.arange(servers), servers + leaf]),
        upper=np.concatenate([servers + server_rack, servers + racks + spine]),
        gbps=np.concatenate([nic_gbps, np.repeat(uplink_gbps / spines, spines)]),
    )
