"""BCube(n, k) generator: servers with k + 1 ports, which relay for one another."""

from collections.abc import Mapping

import numpy as np

from sim.errors import TopologyError
from sim.topology.links import LinkGraph, link_graph
from sim.topology.option_rules import MOST_GPUS, check_counts
from sim.topology.servers import dealt_servers
from sim.topology.topology import Topology

SMALLEST_SWITCH = 2  # ports
LONGEST_ADDRESS = 24  # digits: more than that is a typing error


def bcube(
    *,
    name: str,
    n: int,
    k: int,
    gpus_per_server: int | list[int],
    gpu_types: list[str],
    intra_gbps: float,
    port_gbps: float,
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
    inside: Mapping[str, float] | None = None,
) -> Topology:
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
        servers=servers,
        gpus_per_server=gpus_per_server,
        gpu_types=gpu_types,
        intra_gbps=intra_gbps,
        nic_gbps=port_gbps,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        inside=inside,
    )
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
