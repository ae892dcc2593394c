"""Division of a cluster into partitions: contiguous servers, whole racks where they divide."""

import numpy as np

from sim.arrays import IntArray
from sim.errors import TopologyError
from sim.topology.topology import Topology


def contiguous_partitions(topology: Topology, count: int) -> IntArray:
    """(S,) partition of each server: `count` runs of servers, as equal as possible.

    Racks stay whole when `count` divides the number of racks; otherwise servers are dealt.
    """
    racks, servers = topology.num_racks, topology.num_servers
    if not 1 <= count <= servers:
        raise TopologyError(
            f"agents.count is {count}; the cluster {topology.name} has {servers} servers, "
            f"so it can have 1 to {servers} partitions"
        )
    if racks % count == 0:
        return topology.server_rack // (racks // count)
    return np.arange(servers) * count // servers
