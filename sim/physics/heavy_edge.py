"""Heavy-edge mapping: which worker of a job runs on which of the servers chosen for it.

After the Heavy-Edge GPU mapping of A-SRPT (Luo, Liu, Lee and Shroff, arXiv 2501.05563): workers
that exchange most stay together, so that little crosses servers. A placement that names the GPUs of
a mapping in order of workers is charged as mapped: worker i runs on its i-th GPU.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray, read_only
from sim.errors import PhysicsError
from sim.jit import array_kernel
from sim.physics.physics import Physics
from sim.physics.traffic import RING, CommGraph, Traffic, comm_graph
from sim.summing import pairwise_sum

NOWHERE = -1
# Fields of one profile's traffic: a ring whose edges weigh the same.
EQUAL_RING = (RING, 1.0, 1, 1, 1, 0.0, 0.0)
REMEMBERED = 4096  # graphs, and mappings


class Edges(NamedTuple):
    """E pairs of workers that exchange anything, heaviest first, ties by worker; each pair once."""

    low: IntArray  # (E,)
    high: IntArray  # (E,) above `low`
    # The same by worker: those of worker i are entries first[i] to first[i + 1] of the other two.
    first: IntArray  # (workers + 1,)
    neighbour: IntArray  # (2 E,)
    weight: FloatArray  # (2 E,) bytes in both directions
    # Who sends to whom, as in the graph.
    source: IntArray  # (F,)
    target: IntArray  # (F,)
    num_bytes: FloatArray  # (F,)


def heavy_edge_mapping(graph: CommGraph, free: IntArray) -> IntArray:
    """Map each worker to a server so that heavy edges stay inside servers.

    Servers are filled in the order of most free GPUs, `free` (m,). Each begins with both ends of
    the heaviest edge among workers without a place, then takes the worker with the largest total
    weight to those it has, until its GPUs are used. An edge weighs its bytes in both directions.

    The paper leaves open, chosen here: ties go to the lowest workers and to the first server; where
    no worker without a place has an edge to those on the server, the heaviest edge left begins
    again; a server with room for one worker takes the lowest. The greedy choice can be worse than
    filling the same servers in order of workers; where it is, that order is the answer.

    Returns:
        (workers,) index in `free` of each worker's server.

    Raises:
        PhysicsError: the servers have fewer GPUs than the job has workers.
    """
    if free.sum() < graph.workers:
        raise PhysicsError(
            f"heavy-edge mapping of {graph.workers} workers on servers with {int(free.sum())} free "
            "GPUs; choose servers with at least as many"
        )
    return map_workers(np.argsort(-free, kind="stable"), free, edges_of(graph))


def graph_of_job(belief: Physics, profile: int, gang: int) -> CommGraph:
    """The communication graph of a gang; an equal ring where no link network says what it sends."""
    return _graph(_traffic_of(belief, profile), gang)


def mapping_of_job(belief: Physics, profile: int, gang: int, free: IntArray) -> IntArray:
    """`heavy_edge_mapping` of such a graph, read-only: the same question is answered once."""
    return _mapping(_traffic_of(belief, profile), gang, tuple(free.tolist()))


def _traffic_of(belief: Physics, profile: int) -> tuple[float, ...]:
    """Fields of `Traffic` for one profile."""
    if belief.links is None:
        return EQUAL_RING
    row = belief.links.profile[profile]
    return tuple(row[name].item() for name in Traffic._fields)


@lru_cache(maxsize=REMEMBERED)
def _graph(traffic: tuple[float, ...], gang: int) -> CommGraph:
    one = Traffic(*(np.array([value]) for value in traffic))
    return comm_graph(one, 0, gang)


@lru_cache(maxsize=REMEMBERED)
def _mapping(traffic: tuple[float, ...], gang: int, free: tuple[int, ...]) -> IntArray:
    host = heavy_edge_mapping(_graph(traffic, gang), np.array(free, dtype=np.int64))
    return read_only(host)


def edges_of(graph: CommGraph) -> Edges:
    """What the mapping walks along."""
    low = np.minimum(graph.source, graph.target)
    high = np.maximum(graph.source, graph.target)
    pair, at = np.unique(low * graph.workers + high, return_inverse=True)
    weight = np.bincount(at, weights=graph.num_bytes, minlength=len(pair)).astype(np.float64)
    heaviest = np.argsort(-weight, kind="stable")
    low, high = np.divmod(pair[heaviest], graph.workers)
    source = np.concatenate([low, high])
    by_source = np.argsort(source, kind="stable")
    return Edges(
        low=low, high=high, first=np.searchsorted(source[by_source], np.arange(graph.workers + 1)),
        neighbour=np.concatenate([high, low])[by_source],
        weight=np.tile(weight[heaviest], 2)[by_source], source=graph.source, target=graph.target,
        num_bytes=graph.num_bytes,
    )  # fmt: skip


@array_kernel
def _put(worker: int, server: int, host: IntArray, pull: FloatArray, edges: Edges) -> None:
    """Place one worker; those it talks to are drawn to the server."""
    host[worker] = server
    for at in range(edges.first[worker], edges.first[worker + 1]):
        pull[edges.neighbour[at]] += edges.weight[at]


@array_kernel
def _most_drawn(host: IntArray, pull: FloatArray) -> int:
    """The worker without a place that weighs most to the server being filled; lowest on ties."""
    best = NOWHERE
    for worker in range(len(host)):
        if host[worker] == NOWHERE and (best == NOWHERE or pull[worker] > pull[best]):
            best = worker
    return best


@array_kernel
def _map(order: IntArray, free: IntArray, edges: Edges) -> IntArray:
    """The greedy mapping."""
    host = np.full(len(edges.first) - 1, NOWHERE)
    pull = np.empty(len(host))
    low, high = edges.low, edges.high
    heaviest, left = 0, len(host)
    for server in order:  # one after another: `pull` is towards one server
        room = min(free[server], left)
        left -= room
        pull[:] = 0.0
        while room > 0:  # two workers a turn where a fresh edge begins, else one
            worker = _most_drawn(host, pull)
            if pull[worker] == 0.0 and room > 1:
                while heaviest < len(low) and (  # placed workers stay: the pointer never goes back
                    host[low[heaviest]] != NOWHERE or host[high[heaviest]] != NOWHERE
                ):
                    heaviest += 1
                if heaviest < len(low):
                    _put(low[heaviest], server, host, pull, edges)
                    worker = high[heaviest]
                    room -= 1
            _put(worker, server, host, pull, edges)
            room -= 1
    return host


@array_kernel
def _in_order(order: IntArray, free: IntArray, workers: int) -> IntArray:
    """The same servers filled in order of workers."""
    host, at = np.empty(workers, dtype=np.int64), 0
    for server in order:
        last = min(at + free[server], workers)
        host[at:last] = server
        at = last
    return host


@array_kernel
def cut_bytes(edges: Edges, host: IntArray) -> float:
    """Bytes an iteration between servers, where worker i runs on server `host[i]`."""
    source, target = edges.source, edges.target
    cut, count = np.empty(len(source)), 0
    for at in range(len(source)):  # those cut are gathered: the sum is NumPy's to the last digit
        if host[source[at]] != host[target[at]]:
            cut[count] = edges.num_bytes[at]
            count += 1
    return pairwise_sum(cut[:count])


@array_kernel
def map_workers(order: IntArray, free: IntArray, edges: Edges) -> IntArray:
    """The greedy mapping, or where that cuts more the same servers filled in order of workers.

    `order`: the servers, most free GPUs first; together they have enough.
    """
    host = _map(order, free, edges)
    in_order = _in_order(order, free, len(host))
    return in_order if cut_bytes(edges, in_order) < cut_bytes(edges, host) else host


UNKNOWN = -1


class KnownGraphs(NamedTuple):
    """N graphs; those of gangs of one are left out."""

    number: IntArray  # (P, largest gang + 1) which graph; UNKNOWN
    first_worker: IntArray  # (N + 1,) entries of `edges.first`
    first_edge: IntArray  # (N + 1,) of `edges.low`; twice that of `edges.neighbour`
    first_sent: IntArray  # (N + 1,) of `edges.source`
    edges: Edges


def no_graphs() -> KnownGraphs:
    """Where nobody looks."""
    none = np.zeros(1, dtype=np.int64)
    empty, sizes = np.zeros(0, dtype=np.int64), np.zeros(0)
    edges = Edges(empty, empty, empty, empty, sizes, empty, empty, sizes)
    return KnownGraphs(np.full((1, 1), UNKNOWN), none, none, none, edges)


def graphs_of(belief: Physics, profile: IntArray, gang: IntArray) -> KnownGraphs:
    """The graphs of jobs of these profiles and gangs."""
    number = np.full((int(profile.max()) + 1, int(gang.max()) + 1), UNKNOWN)
    several = gang > 1
    pairs = np.unique(np.stack([profile[several], gang[several]], axis=1), axis=0)
    alike: dict[int, int] = {}  # graphs are kept: the same one is the same object
    found: list[Edges] = []
    for each, size in pairs.tolist():
        graph = graph_of_job(belief, each, size)
        if id(graph) not in alike:
            alike[id(graph)] = len(found)
            found.append(edges_of(graph))
        number[each, size] = alike[id(graph)]
    if not found:
        return no_graphs()
    return KnownGraphs(
        number=number,
        first_worker=_starts([len(edges.first) for edges in found]),
        first_edge=_starts([len(edges.low) for edges in found]),
        first_sent=_starts([len(edges.source) for edges in found]),
        edges=Edges(*(np.concatenate(columns) for columns in zip(*found, strict=True))),
    )


def _starts(counts: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@array_kernel
def edges_at(graphs: KnownGraphs, number: int) -> Edges:
    """Those of one graph."""
    edges = graphs.edges
    low, high = graphs.first_edge[number], graphs.first_edge[number + 1]
    begin, end = graphs.first_sent[number], graphs.first_sent[number + 1]
    return Edges(
        edges.low[low:high], edges.high[low:high],
        edges.first[graphs.first_worker[number] : graphs.first_worker[number + 1]],
        edges.neighbour[2 * low : 2 * high], edges.weight[2 * low : 2 * high],
        edges.source[begin:end], edges.target[begin:end], edges.num_bytes[begin:end],
    )  # fmt: skip
