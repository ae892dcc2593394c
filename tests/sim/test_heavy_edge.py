"""Heavy-edge mapping on graphs small enough to try every mapping."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import PhysicsError
from sim.physics.heavy_edge import (
    cut_bytes,
    edges_of,
    graph_of_job,
    heavy_edge_mapping,
    mapping_of_job,
)
from sim.physics.traffic import CommGraph
from tests.sim.worlds import cluster, physics_of


def graph_of(workers: int, edges: dict[tuple[int, int], float]) -> CommGraph:
    pairs = sorted(edges)
    return CommGraph(
        workers=workers,
        source=np.array([a for a, _ in pairs], dtype=np.int64),
        target=np.array([b for _, b in pairs], dtype=np.int64),
        num_bytes=np.array([edges[pair] for pair in pairs], dtype=np.float64),
    )


def least_cut(graph: CommGraph, free: list[int]) -> float:
    """Of all mappings that no server is too small for."""
    hosts = itertools.product(range(len(free)), repeat=graph.workers)
    fitting = (np.array(h) for h in hosts if all(h.count(s) <= n for s, n in enumerate(free)))
    return min(cut_bytes(edges_of(graph), host) for host in fitting)


def mapped(graph: CommGraph, free: list[int]) -> list[int]:
    return heavy_edge_mapping(graph, np.array(free)).tolist()


def test_partners_that_are_not_neighbours_come_together():
    # Heavy pairs 0-2 and 1-3, a light ring around all: in order of workers both would be cut.
    ring = {(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0, (3, 0): 1.0}
    graph = graph_of(4, {**ring, (0, 2): 9.0, (1, 3): 9.0})
    assert mapped(graph, [2, 2]) == [0, 1, 0, 1]
    assert cut_bytes(edges_of(graph), np.array([0, 1, 0, 1])) == 4.0 == least_cut(graph, [2, 2])
    assert cut_bytes(edges_of(graph), np.array([0, 0, 1, 1])) == 20.0


def test_the_server_with_most_room_takes_the_heaviest_cluster():
    # A triangle of 5s and a pair of 4s, joined by 1: the triangle goes where three fit.
    edges = {(1, 3): 5.0, (3, 4): 5.0, (1, 4): 5.0, (0, 2): 4.0, (2, 1): 1.0}
    graph = graph_of(5, edges)
    assert mapped(graph, [2, 3]) == [0, 1, 0, 1, 1]
    assert least_cut(graph, [2, 3]) == 1.0


def test_both_directions_of_an_edge_count_together():
    graph = graph_of(3, {(0, 1): 4.0, (1, 2): 3.0, (2, 1): 3.0})
    assert mapped(graph, [2, 1]) == [1, 0, 0]


def test_a_ring_stays_in_order_and_is_cut_as_little_as_can_be():
    topology = cluster(3, 4)
    graph = graph_of_job(physics_of(topology), 0, 8)  # no link network: equal weights
    host = heavy_edge_mapping(graph, np.array([4, 2, 2]))
    assert host.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    again = mapping_of_job(physics_of(topology), 0, 8, np.array([4, 2, 2]))
    assert again.tolist() == host.tolist()


def test_jobs_that_do_not_talk_fill_servers_in_order():
    assert mapped(graph_of(3, {}), [1, 0, 2]) == [2, 2, 0]


def test_unconnected_groups_each_begin_with_their_heaviest_edge():
    graph = graph_of(4, {(0, 3): 2.0, (1, 2): 7.0})
    assert mapped(graph, [4]) == [0, 0, 0, 0]
    assert mapped(graph, [2, 2]) == [1, 0, 0, 1]


def test_too_few_gpus_are_refused():
    with pytest.raises(PhysicsError, match="3 workers on servers with 2 free"):
        mapped(graph_of(3, {}), [1, 1])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    workers=st.integers(1, 6),
    free=st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_never_worse_than_filling_in_order_never_better_than_the_best(
    seed: int, workers: int, free: list[int]
) -> None:
    free = sorted([*free, workers], reverse=True) if sum(free) < workers else sorted(free)[::-1]
    rng = np.random.default_rng(seed)
    pairs = itertools.permutations(range(workers), 2)
    graph = graph_of(
        workers, {pair: float(rng.integers(1, 9)) for pair in pairs if rng.random() < 0.5}
    )
    host = heavy_edge_mapping(graph, np.array(free))
    assert np.all(np.bincount(host, minlength=len(free)) <= free)
    in_order = np.repeat(np.arange(len(free)), free)[:workers]
    cut = cut_bytes(edges_of(graph), host)
    assert least_cut(graph, free) <= cut <= cut_bytes(edges_of(graph), in_order)
