"""The network as the kernel reads it: traffic, link graph and constants of one sharing rule.

From a job's pattern and placement to flows between servers.

Worker i runs on the i-th GPU of the placement; of a mix, worker
((stage * copies) + copy) * width + rank: tensor groups are neighbours, then copies, then stages
(the usual order of Megatron-LM). Rings pass each server once, in the order in which their members
first name it, since the members on one server first reduce among themselves (the hierarchical
ring).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.errors import PhysicsError, amount
from sim.handle import Handle
from sim.jit import kernel
from sim.physics.catalogue import Catalogue
from sim.physics.laws import BITS_PER_BYTE, BITS_PER_GBIT, ring_bytes
from sim.physics.traffic import (
    GPU_INSIDE,
    PARAMETER_SERVER,
    RING,
    SERVER_INSIDE,
    TRAFFIC,
    Traffic,
    flows_per_worker,
    mix_shape,
    shard_host,
    traffic_rows,
)
from sim.topology.links import ENDS, LinkGraph
from sim.topology.topology import Inside, Topology

MAX_MIN, K_WAY, DUTY = 0, 1, 2  # values of LinkNetwork.sharing
BYTES_PER_GBIT = BITS_PER_GBIT / BITS_PER_BYTE


@dataclass(frozen=True, eq=False)
class LinkNetwork(Handle):
    """P profiles on S servers with G GPUs and D directed links."""

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
    rule: IntArray
    longest_route: int
    # Inside servers (see sim.topology.topology.Inside).
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
    *, sharing: int, overlap_frac: float, alpha_local_s: float, alpha_server_s: float,
    eta_frac: float, traffic: Traffic, catalogue: Catalogue, topology: Topology,
) -> LinkNetwork:  # fmt: skip
    """Put together what the kernel reads; PhysicsError if the traffic is of another catalogue."""
    if len(traffic.pattern) != len(catalogue.names):
        raise PhysicsError(
            f"traffic of {len(traffic.pattern)} profiles, catalogue of {len(catalogue.names)}; "
            "build both from the same profiles"
        )
    graph = graph_of(topology)
    _check_graph(graph, topology)
    return LinkNetwork(
        sharing=sharing, overlap_frac=float(overlap_frac), alpha_local_s=float(alpha_local_s),
        alpha_server_s=float(alpha_server_s), eta_frac=float(eta_frac),
        profile=traffic_rows(traffic), flows_per_worker=flows_per_worker(traffic),
        capacity=np.repeat(graph.link_gbps, 2) * BYTES_PER_GBIT,
        first_up=np.array(graph.first_up, dtype=np.int64),
        up_link=np.array(graph.up_link, dtype=np.int64),
        link_ends=np.array(graph.link_ends, dtype=np.int64, order="C"),
        route_kind=int(graph.route_kind), rule=np.array(graph.rule, dtype=np.int64),
        longest_route=max(1, int(graph.longest_route)),
        inside_described=int(topology.inside is not None), server=_servers(topology),
        gpu=_gpus(topology.inside),
    )  # fmt: skip


@cache
def no_link_network() -> LinkNetwork:
    """What stands in the kernel's state where no links are shared; nobody reads it."""
    return LinkNetwork(
        sharing=MAX_MIN, overlap_frac=0.0, alpha_local_s=0.0, alpha_server_s=0.0, eta_frac=0.0,
        profile=np.zeros(0, dtype=TRAFFIC), flows_per_worker=1, capacity=np.zeros(0),
        first_up=np.zeros(1, dtype=np.int64), up_link=np.zeros(0, dtype=np.int64),
        link_ends=np.zeros((0, ENDS), dtype=np.int64), route_kind=0,
        rule=np.zeros(2, dtype=np.int64), longest_route=1, inside_described=0,
        server=np.zeros(0, dtype=SERVER_INSIDE), gpu=np.zeros(0, dtype=GPU_INSIDE),
    )  # fmt: skip


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
    """PhysicsError where the graph is of other servers, or does not join them all."""
    if graph.num_servers != topology.num_servers:
        raise PhysicsError(
            f"the link graph of {topology.name} has {amount(graph.num_servers, 'server')}, the "
            f"topology {topology.num_servers}; build both from the same servers"
        )
    apart = graph.servers_apart()
    if apart is not None:
        raise PhysicsError(
            f"the links of {topology.name} lead nowhere from server {apart[0]} to server "
            f"{apart[1]}; join their switches. In a tree the i-th uplinks of all nodes of a level "
            "have to meet"
        )


@kernel
def _add(flow: RowArray, count: int, source: int, target: int, num_bytes: float) -> int:
    flow[count].source = source
    flow[count].target = target
    flow[count].num_bytes = num_bytes
    return count + 1


@kernel
def _ring(
    flow: RowArray, count: int, stops: IntArray, servers: int, buffer_bytes: float
) -> tuple[int, int]:
    """Ring over the first `servers` of `stops`, which are distinct.

    Returns the number of flows so far and of servers in the ring (1: nothing is sent).
    """
    if servers == 1 or buffer_bytes <= 0.0:
        return count, 1
    hop_bytes = ring_bytes(servers, buffer_bytes)
    for k in range(servers - 1):
        count = _add(flow, count, stops[k], stops[k + 1], hop_bytes)
    return _add(flow, count, stops[servers - 1], stops[0], hop_bytes), servers


@kernel
def _stops(gang: RowArray, ring: int, members: tuple[int, int, int]) -> int:
    """List the servers of workers first, first + step, ... (members: first, step, number).

    Each once in `stop`, as first met. `ring` is above the number of every ring before it.

    Returns:
        Number of servers.
    """
    first, step, number = members
    servers = 0
    for k in range(number):  # marked by number of ring, so nothing is cleared in between
        at = gang[first + k * step].at
        if gang[at].ring != ring:
            gang[at].ring = ring
            gang[servers].stop = gang[at].server
            servers += 1
    return servers


@kernel
def _spread_shards(gang: RowArray, servers: int, workers: int, shards: int) -> int:
    """Count the shards on each server; list the servers that have some, and return how many."""
    for position in range(servers):  # the placement before it may have left counts
        gang[position].hosted = 0
    for shard in range(shards):  # each runs beside one worker, and counts where that is
        gang[gang[shard_host(shard, shards, workers)].at].hosted += 1
    hosts = 0
    for position in range(servers):  # in order of servers: the order of flows depends on it
        if gang[position].hosted > 0:
            gang[hosts].hosts = position
            hosts += 1
    return hosts


@kernel
def _parameter_server(
    flow: RowArray, gang: RowArray, servers: int, workers: int, row: Any
) -> tuple[int, int]:
    """Pushes and fetches of w_i q_j + q_i w_j shards between servers with w workers, q shards."""
    shards, grad_bytes = row.ps_count, row.grad_bytes
    hosts = _spread_shards(gang, servers, workers, shards)
    count = 0
    if grad_bytes <= 0.0:
        return count, 2
    for i in range(servers):  # each as sender: the two directions are flows of their own
        mine = gang[i]
        for k in range(servers if mine.hosted > 0 else hosts):  # who has no shards sends to hosts
            j = k if mine.hosted > 0 else gang[k].hosts
            moves = mine.gpus_on * gang[j].hosted + mine.hosted * gang[j].gpus_on
            if i != j and moves > 0:
                num_bytes = moves * grad_bytes / shards
                count = _add(flow, count, mine.server, gang[j].server, num_bytes)
    return count, 2


@kernel
def _pipeline(
    flow: RowArray, count: int, host: IntArray, shape: tuple[int, int, int], boundary_bytes: float
) -> tuple[int, int]:
    """Activations to the next stage and gradients back, worker by worker; steps waited for."""
    width, depth, copies = shape
    steps = 0
    for stage in range(depth - 1):  # stages wait for each other: the steps of all boundaries add up
        crosses = False
        for k in range(copies * width):  # pairs send at once: two steps however many there are
            here = host[stage * copies * width + k]
            partner = host[(stage + 1) * copies * width + k]
            if here != partner and boundary_bytes > 0.0:
                crosses = True
                count = _add(flow, count, here, partner, boundary_bytes / width)
                count = _add(flow, count, partner, here, boundary_bytes / width)
        if crosses:
            steps += 2
    return count, steps


@kernel
def _mix(flow: RowArray, gang: RowArray, servers: int, workers: int, row: Any) -> tuple[int, int]:
    """Gradient rings of each stage and rank, tensor rings of each stage and copy, boundaries."""
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    for position in range(servers):  # numbers of rings begin anew with each job
        gang[position].ring = 0
    stops = gang["stop"]
    count, widest_data, widest_tensor, ring = 0, 1, 1, 0
    share_bytes = row.grad_bytes / (width * depth)
    for stage in range(depth):  # each holds its own part of the model: no ring spans two
        for rank in range(width):  # and each rank its own part of the stage
            ring += 1
            passed = _stops(gang, ring, (stage * copies * width + rank, width, copies))
            count, passed = _ring(flow, count, stops, passed, share_bytes)
            widest_data = max(widest_data, passed)
    share_bytes = row.tensor_bytes / depth
    for group in range(depth * copies):  # of neighbours; all reduce at once: the widest counts
        ring += 1
        passed = _stops(gang, ring, (group * width, 1, width))
        count, passed = _ring(flow, count, stops, passed, share_bytes)
        widest_tensor = max(widest_tensor, passed)
    shape = (width, depth, copies)
    count, steps = _pipeline(flow, count, gang["host"], shape, row.activation_bytes)
    return count, steps + 2 * (widest_data - 1) + 2 * (widest_tensor - 1)


@kernel
def server_flows(row: Any, gang: RowArray, servers: int, flow: RowArray) -> tuple[int, int]:
    """Write what a job sends between servers in one iteration.

    Args:
        row: TRAFFIC of its profile.
        gang: GANG, of at least as many rows as there are workers, as `measure_placement` left it:
            distinct servers and the workers on each, and where each worker is. The rest is scratch.
        servers: number of servers.
        flow: FLOW, written from its beginning, in a fixed order.

    Returns:
        Number of flows; number of message steps that follow one another (for the latency).
    """
    if servers == 1:
        return 0, 0
    if row.pattern == RING:
        count, around = _ring(flow, 0, gang["server"], servers, row.grad_bytes)
        return count, 2 * (around - 1)
    workers = 0
    for position in range(servers):  # a ring of servers needs no count; these patterns do
        workers += gang[position].gpus_on
    if row.pattern == PARAMETER_SERVER:
        return _parameter_server(flow, gang, servers, workers, row)
    return _mix(flow, gang, servers, workers, row)
