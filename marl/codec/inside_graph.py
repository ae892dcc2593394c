"""The graph inside each server as padded lists of edges: GPUs, PCIe switches, sockets, NVLink."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.scoring.table import OfEdge
from sim.topology.inside import Inside
from sim.topology.topology import Topology

USUAL_GBPS = 100.0  # of a link inside a server; its rate counts as 0
NO_EDGE = -1

Edge = tuple[int, int, int, float]  # two nodes, kind, Gbps


class InsideGraph(NamedTuple):
    """S servers; a server's nodes are its GPUs, its PCIe switches and its sockets.

    GPUs are numbered from 0, switches from the number of GPUs of the largest server, sockets
    after the switches of the server that has most.
    """

    ends: IntArray  # (S, E, 2) nodes; NO_EDGE where a server has fewer edges
    features: FloatArray  # (S, E, OfEdge)


def inside_graph(topology: Topology) -> InsideGraph:
    """The edges inside all servers of the cluster; none where `topology.inside` is None."""
    inside, servers = topology.inside, topology.num_servers
    if inside is None:
        return InsideGraph(np.full((servers, 1, 2), NO_EDGE), np.zeros((servers, 1, len(OfEdge))))
    gpus = int(topology.gpus_per_server.max())
    first_socket = gpus + int(inside.gpu_switch.max()) + 1
    found = [_edges(topology, inside, server, gpus, first_socket) for server in range(servers)]
    most = max(1, *map(len, found))
    ends = np.full((servers, most, 2), NO_EDGE)
    features = np.zeros((servers, most, len(OfEdge)))
    for server, edges in enumerate(found):
        for at, (one, two, kind, gbps) in enumerate(edges):
            ends[server, at] = one, two
            features[server, at, kind] = 1.0
            features[server, at, OfEdge.RATE] = np.log(gbps / USUAL_GBPS) / 2.0
    return InsideGraph(ends, features)


def _edges(
    topology: Topology, inside: Inside, server: int, first_switch: int, first_socket: int
) -> list[Edge]:
    """GPU to switch, switch to socket, socket to socket, and NVLink between GPUs of an island."""
    first, last = topology.server_first_gpu[server : server + 2]
    switch, socket = inside.gpu_switch[first:last], inside.gpu_socket[first:last]
    pcie, across = float(inside.pcie_gbps[server]), float(inside.socket_gbps[server])
    above = dict(zip(switch.tolist(), socket.tolist(), strict=True))  # switch -> its socket
    edges: list[Edge] = [
        (k, first_switch + s, OfEdge.PCIE, pcie) for k, s in enumerate(switch.tolist())
    ]
    edges += [(first_switch + s, first_socket + c, OfEdge.SOCKET, across) for s, c in above.items()]
    for one, two in combinations(sorted(set(above.values())), 2):
        edges.append((first_socket + one, first_socket + two, OfEdge.SOCKET, across))
    island = inside.gpu_island[first:last]
    for a, b in combinations(range(last - first), 2):
        if island[a] >= 0 and island[a] == island[b]:
            edges.append((a, b, OfEdge.NVLINK, float(inside.nvlink_gbps[server])))
    return edges
