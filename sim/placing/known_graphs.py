"""The communication graphs of all jobs of a run, one behind the other, for compiled code."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel
from sim.physics.heavy_edge import Edges, edges_of, graph_of_job
from sim.physics.physics import Physics

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
        edges.low[low:high],
        edges.high[low:high],
        edges.first[graphs.first_worker[number] : graphs.first_worker[number + 1]],
        edges.neighbour[2 * low : 2 * high],
        edges.weight[2 * low : 2 * high],
        edges.source[begin:end],
        edges.target[begin:end],
        edges.num_bytes[begin:end],
    )
