"""The network as the kernel reads it: traffic, link graph and constants of one sharing rule."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.jit import kernel
from sim.physics.catalogue import Catalogue
from sim.physics.link_rows import GPU_INSIDE, SERVER_INSIDE, TRAFFIC, RowArray
from sim.physics.network_tables import BITS_PER_BYTE, BITS_PER_GBIT
from sim.physics.traffic import Traffic, flows_per_worker, traffic_rows
from sim.topology.inside import Inside
from sim.topology.links import ENDS, LinkGraph
from sim.topology.routing import route
from sim.topology.topology import Topology

MAX_MIN, K_WAY, DUTY = 0, 1, 2  # values of LinkNetwork.sharing
BYTES_PER_GBIT = BITS_PER_GBIT / BITS_PER_BYTE


class LinkNetwork(NamedTuple):
    """P profiles on S servers with G GPUs and D directed links; arrays and numbers, for numba.

    A named tuple and not a dataclass, because compiled code takes it as it is.
    """

    sharing: int  # MAX_MIN, K_WAY or DUTY
    overlap_frac: float  # share of communication hidden behind compute, in [0, 1)
    alpha_local_s: float  # latency of a message step inside a server
    alpha_server_s: float  # latency of a message step between servers
    eta_frac: float  # K_WAY: eta / b
    profile: RowArray  # (P,) TRAFFIC
    flows_per_worker: int  # at most
    # Link graph (see sim.topology.links.LinkGraph).
    capacity: FloatArray  # (D,) bytes a second
    first_up: IntArray
    up_link: IntArray
    link_ends: IntArray
    route_kind: int
    digits: IntArray
    longest_route: int
    # Inside servers (see sim.topology.inside.Inside).
    inside_described: int  # 0: `intra_gbps` is all there is, and `gpu` is empty
    server: RowArray  # (S,) SERVER_INSIDE
    gpu: RowArray  # (G,) GPU_INSIDE


def graph_of(topology: Topology) -> LinkGraph:
    """The topology's link graph; PhysicsError where it has none."""
    if topology.links is None:
        raise PhysicsError(
            f"topology {topology.name} has no link graph, which this network model shares out; "
            "build it with links (sim.topology.generators.leaf_spine_links makes them from racks), "
            "or use network=alpha_beta or network=none"
        )
    return topology.links


def make_link_network(
    *,
    sharing: int,
    overlap_frac: float,
    alpha_local_s: float,
    alpha_server_s: float,
    eta_frac: float,
    traffic: Traffic,
    catalogue: Catalogue,
    topology: Topology,
) -> LinkNetwork:
    """Put together what the kernel reads; PhysicsError if the traffic is of another catalogue."""
    if len(traffic.pattern) != len(catalogue.names):
        raise PhysicsError(
            f"traffic of {len(traffic.pattern)} profiles, catalogue of {len(catalogue.names)}; "
            "build both from the same profiles"
        )
    graph = graph_of(topology)
    _check_graph(graph, topology)
    return LinkNetwork(
        sharing=sharing,
        overlap_frac=float(overlap_frac),
        alpha_local_s=float(alpha_local_s),
        alpha_server_s=float(alpha_server_s),
        eta_frac=float(eta_frac),
        profile=traffic_rows(traffic),
        flows_per_worker=flows_per_worker(traffic),
        capacity=graph.directed_gbps * BYTES_PER_GBIT,
        first_up=np.array(graph.first_up, dtype=np.int64),
        up_link=np.array(graph.up_link, dtype=np.int64),
        link_ends=np.array(graph.link_ends, dtype=np.int64, order="C"),
        route_kind=int(graph.route_kind),
        digits=np.array(graph.digits, dtype=np.int64),
        longest_route=max(1, int(graph.longest_route)),
        inside_described=int(topology.inside is not None),
        server=_servers(topology),
        gpu=_gpus(topology.inside),
    )


def no_link_network() -> LinkNetwork:
    """What stands in the kernel's state where no links are shared; nobody reads it."""
    return LinkNetwork(
        sharing=MAX_MIN,
        overlap_frac=0.0,
        alpha_local_s=0.0,
        alpha_server_s=0.0,
        eta_frac=0.0,
        profile=np.zeros(0, dtype=TRAFFIC),
        flows_per_worker=1,
        capacity=np.zeros(0),
        first_up=np.zeros(1, dtype=np.int64),
        up_link=np.zeros(0, dtype=np.int64),
        link_ends=np.zeros((0, ENDS), dtype=np.int64),
        route_kind=0,
        digits=np.zeros(2, dtype=np.int64),
        longest_route=1,
        inside_described=0,
        server=np.zeros(0, dtype=SERVER_INSIDE),
        gpu=np.zeros(0, dtype=GPU_INSIDE),
    )


def _servers(topology: Topology) -> RowArray:
    row = np.zeros(topology.num_servers, dtype=SERVER_INSIDE)
    row["intra_gbps"] = topology.intra_gbps
    if topology.inside is not None:
        for name in ("nvlink_gbps", "pcie_gbps", "socket_gbps"):
            row[name] = getattr(topology.inside, name)
    return row


def _gpus(inside: Inside | None) -> RowArray:
    row = np.zeros(0 if inside is None else len(inside.gpu_switch), dtype=GPU_INSIDE)
    if inside is not None:
        row["switch"], row["island"] = inside.gpu_switch, inside.gpu_island
    return row


def _check_graph(graph: LinkGraph, topology: Topology) -> None:
    """PhysicsError where the graph is of other servers, or server 0 does not reach them all."""
    if graph.num_servers != topology.num_servers:
        raise PhysicsError(
            f"the link graph of {topology.name} has {graph.num_servers} servers, the topology "
            f"{topology.num_servers}; build both from the same servers"
        )
    room = np.zeros(max(1, graph.longest_route), dtype=np.int64)
    unreached = _first_unreached(
        graph.first_up, graph.up_link, graph.link_ends, graph.route_kind, graph.digits, room,
        topology.num_servers,
    )  # fmt: skip
    if unreached >= 0:
        raise PhysicsError(
            f"the links of {topology.name} lead nowhere from server 0 to server {unreached}; "
            "join their switches"
        )


@kernel
def _first_unreached(  # noqa: PLR0917  (compiled: arrays by position)
    first_up: IntArray,
    up_link: IntArray,
    link_ends: IntArray,
    route_kind: int,
    digits: IntArray,
    room: IntArray,
    servers: int,
) -> int:
    """First server that server 0 has no route to; -1 where there is none."""
    for server in range(1, servers):
        if route(first_up, up_link, link_ends, route_kind, digits, 0, server, room) < 0:
            return server
    return -1
