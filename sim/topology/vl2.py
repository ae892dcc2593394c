"""VL2 generator: racks below two aggregation switches each, all of them below intermediates."""

from collections.abc import Mapping

import numpy as np

from sim.errors import TopologyError
from sim.topology.links import LinkGraph, link_graph
from sim.topology.option_rules import check_counts, check_rates
from sim.topology.servers import dealt_servers
from sim.topology.topology import Topology


def vl2(
    *,
    name: str,
    aggregation_ports: int,
    intermediate_ports: int,
    servers_per_rack: int,
    gpus_per_server: int | list[int],
    gpu_types: list[str],
    intra_gbps: float,
    nic_gbps: float,
    fabric_gbps: float,
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:
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
        servers=racks * servers_per_rack,
        gpus_per_server=gpus_per_server,
        gpu_types=gpu_types,
        intra_gbps=intra_gbps,
        nic_gbps=nic_gbps,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        inside=inside,
    )
    rack = np.repeat(np.arange(racks), servers_per_rack)
    return built.wired(
        name=name,
        server_rack=rack,
        uplink_gbps=np.full(racks, 2.0 * fabric_gbps),
        links=_links(
            aggregation_ports, intermediate_ports, servers_per_rack, nic_gbps, fabric_gbps
        ),
    )


def _links(
    d_a: int, d_i: int, servers_per_rack: int, nic_gbps: float, fabric_gbps: float
) -> LinkGraph:
    racks, intermediates = d_a * d_i // 4, d_a // 2
    servers = racks * servers_per_rack
    first_rack, first_agg = servers, servers + racks
    rack = np.repeat(np.arange(racks), 2)
    agg_of_rack = rack // (d_a // 2) * 2 + np.tile([0, 1], racks)
    agg = np.repeat(np.arange(d_i), intermediates)
    intermediate = np.tile(np.arange(intermediates), d_i)
    lower = [np.arange(servers), first_rack + rack, first_agg + agg]
    upper = [
        first_rack + np.arange(servers) // servers_per_rack,
        first_agg + agg_of_rack,
        first_agg + d_i + intermediate,
    ]
    rates = [np.full(servers, nic_gbps), np.full(len(rack) + len(agg), fabric_gbps)]
    return link_graph(
        level_names=("server", "rack", "aggregation", "intermediate"),
        level_sizes=(servers, racks, d_i, intermediates),
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        gbps=np.concatenate(rates),
    )
