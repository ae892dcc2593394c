"""Division of a cluster into partitions: contiguous servers, or virtual clusters."""

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


def group_partitions(topology: Topology, count: int) -> IntArray:
    """(S,) partition of each server: every group (virtual cluster) whole, in one of `count`.

    Groups are dealt from the one with most GPUs to the one with fewest, ties by first appearance,
    each to the partition with fewest GPUs so far, the lowest at a tie. Servers without a group
    count as one group.
    """
    if topology.server_group is None:
        raise TopologyError(
            f"the cluster {topology.name} has no groups; set agents.division=contiguous"
        )
    names = list(dict.fromkeys(topology.server_group.tolist()))
    if not 1 <= count <= len(names):
        raise TopologyError(
            f"agents.count is {count}; the cluster {topology.name} has {len(names)} groups, so it "
            f"can have 1 to {len(names)} partitions"
        )
    place = {name: at for at, name in enumerate(names)}
    group = np.array([place[name] for name in topology.server_group.tolist()], dtype=np.int64)
    gpus = np.bincount(group, weights=topology.gpus_per_server)
    held = np.zeros(count)
    partition = np.empty(len(names), dtype=np.int64)
    for largest in np.argsort(-gpus, kind="stable"):
        partition[largest] = np.argmin(held)
        held[partition[largest]] += gpus[largest]
    return partition[group]
