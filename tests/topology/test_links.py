"""Link graphs and GPUs inside servers: what is refused, names and sizes, routes, slowest hops."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.links import MOST_NODES, LinkGraph, link_graph
from sim.topology.servers import ServerInside, inside_of
from sim.topology.topology import NO_ISLAND, Inside, Topology
from tests.topology import fabrics


def graph(**changes: object) -> LinkGraph:
    """Two servers below one switch."""
    values = {"level_names": ("server", "switch"), "level_sizes": (2, 1),
              "lower": np.array([0, 1]), "upper": np.array([2, 2]),
              "gbps": np.array([10.0, 20.0])}  # fmt: skip
    return link_graph(**{**values, **changes})  # type: ignore[arg-type]


def test_directed_links_go_up_and_down():
    links = graph()
    assert links.path(0, 1).tolist() == [0, 3]
    assert links.path(1, 0).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upper": np.array([2, 3])}, "outside the nodes 0 to 2"),
        ({"upper": np.array([2, 0])}, "lower level to a higher one"),
        ({"gbps": np.array([10.0, 0.0])}, "above 0 Gbps"),
        ({"gbps": np.array([10.0, np.nan])}, "above 0 Gbps"),
        ({"gbps": np.array([10.0])}, "capacities"),
        ({"lower": np.array([0, 0])}, "level server have 0 to 2 uplinks"),
    ],
)
def test_impossible_graphs_are_refused(changes: dict[str, object], words: str):
    with pytest.raises(TopologyError, match=words):
        graph(**changes)
    links = graph(level_sizes=(2, 2), upper=np.array([2, 3]))
    with pytest.raises(TopologyError, match="server 0 and server 1 are not connected"):
        links.path(0, 1)


def nodes_of(links: LinkGraph, path: Iterable[int]) -> list[int]:
    """Nodes that a path visits; fails where two of its links do not meet."""
    visited: list[int] = []
    for directed in path:
        lower, upper = links.link_ends[directed // 2].tolist()
        start, end = (upper, lower) if directed % 2 else (lower, upper)
        assert not visited or visited[-1] == start
        visited += [end] if visited else [start, end]
    return visited


def names(topology: Topology, a: int, b: int) -> list[str]:
    """Of the nodes on the path: level, and number within it."""
    links = fabrics.links_of(topology)
    visited, level = nodes_of(links, links.path(a, b).tolist()), links.node_level
    return [f"{links.level_names[level[n]]} {n - np.argmax(level == level[n])}" for n in visited]


# By hand --------------------------------------------------------------------------------------


def test_leaf_spine_by_hand():
    # rack 0: servers 0 1 2 on leaf 0; rack 1: servers 3 4 5 on leaf 1; one spine.
    # links 0..5: server s - its leaf; 6: leaf 0 - spine; 7: leaf 1 - spine
    topology = fabrics.a_leaf_spine(servers=6, per_rack=3, spines=1)
    assert fabrics.links_of(topology).path(0, 2).tolist() == [2 * 0, 2 * 2 + 1]
    assert fabrics.links_of(topology).path(1, 5).tolist() == [2 * 1, 2 * 6, 2 * 7 + 1, 2 * 5 + 1]
    assert fabrics.links_of(topology).path(4, 4).tolist() == []
    assert names(topology, 1, 5) == ["server 1", "leaf 0", "spine 0", "leaf 1", "server 5"]


def test_leaf_spine_capacities_by_hand():
    # Rack of 4 at 10 Gbps, oversubscribed 2: 20 Gbps up over 2 spines; the last rack holds 1.
    topology = fabrics.a_leaf_spine(servers=5, per_rack=4, spines=2)
    assert fabrics.links_of(topology).link_gbps.tolist() == [10.0] * 5 + [10.0, 10.0, 2.5, 2.5]
    assert topology.uplink_gbps.tolist() == [20.0, 5.0]


def test_fat_tree_by_hand():
    # k = 4: edges 0 1 and aggregations 0 1 in pod 0 (servers 0-3), 2 3 in pod 1 (servers 4-7), ...
    # aggregation 0 of each pod leads to cores 0 1, aggregation 1 to cores 2 3.
    topology = fabrics.a_fat_tree(4, None)
    assert topology.num_servers == 16
    assert names(topology, 0, 1) == ["server 0", "edge 0", "server 1"]
    same_pod = names(topology, 0, 2)
    assert [*same_pod[:2], *same_pod[3:]] == ["server 0", "edge 0", "edge 1", "server 2"]
    assert same_pod[2] in {"aggregation 0", "aggregation 1"}
    _, edge, up, core, down, other_edge, _ = names(topology, 1, 15)
    assert (edge, other_edge) == ("edge 0", "edge 7")
    half = int(up.split()[1])
    assert down == f"aggregation {6 + half}"
    assert core in {f"core {2 * half}", f"core {2 * half + 1}"}


def test_vl2_by_hand():
    # D_A = 4, D_I = 4: 4 racks, 4 aggregations, 2 intermediates.
    # racks 0 1 below aggregations 0 1; racks 2 3 below aggregations 2 3.
    topology = fabrics.a_vl2(4, 4, per_rack=2)
    assert names(topology, 0, 1) == ["server 0", "rack 0", "server 1"]
    _, first, aggregation, second, _ = names(topology, 0, 3)
    assert (first, second) == ("rack 0", "rack 1")
    assert aggregation in {"aggregation 0", "aggregation 1"}
    _, _, up, middle, down, _, _ = names(topology, 0, 7)
    assert int(down.split()[1]) == int(up.split()[1]) + 2
    assert middle in {"intermediate 0", "intermediate 1"}


def test_bcube_by_hand():
    # BCube(4, 1): server 4 * a1 + a0; port 0: level-0 switch a1; port 1: level-1 switch a0
    topology = fabrics.a_bcube(4, 1)
    assert names(topology, 4 * 2 + 1, 4 * 2 + 3) == ["server 9", "level-0 switch 2", "server 11"]
    assert names(topology, 4 * 0 + 1, 4 * 3 + 1) == ["server 1", "level-1 switch 1", "server 13"]
    both = names(topology, 4 * 0 + 1, 4 * 3 + 2)
    assert both in (
        ["server 1", "level-0 switch 0", "server 2", "level-1 switch 2", "server 14"],
        ["server 1", "level-1 switch 1", "server 13", "level-0 switch 3", "server 14"],
    )


def joined(servers: int, switches: int, links: list[tuple[int, int]]) -> LinkGraph:
    """Links between any two nodes, routed by shortest paths."""
    one, two = np.array(links).T
    return link_graph(
        level_names=("server", "router"), level_sizes=(servers, switches), lower=one, upper=two,
        gbps=np.ones(len(links)), shortest=True,
    )  # fmt: skip


def test_a_ring_of_servers_by_hand():
    # Servers 0 to 5; link s leads from server s to the next. Across, both ways are as long.
    ring = joined(6, 0, [(s, (s + 1) % 6) for s in range(6)])
    fabrics.check_links(ring)
    assert ring.longest_route == 3
    assert ring.path(0, 2).tolist() == [2 * 0, 2 * 1]
    assert ring.path(1, 5).tolist() == [2 * 0 + 1, 2 * 5 + 1]
    assert ring.path(5, 1).tolist() == [2 * 5, 2 * 0]
    across = {tuple(nodes_of(ring, ring.path(a, a + 3).tolist())) for a in range(3)}
    assert across & {(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)}
    assert across & {(0, 5, 4, 3), (1, 0, 5, 4), (2, 1, 0, 5)}


def test_servers_that_nothing_joins_and_too_many_nodes_are_refused():
    with pytest.raises(TopologyError, match="server 0 and server 3 are not connected"):
        joined(4, 0, [(0, 1), (2, 3)]).path(0, 3)
    with pytest.raises(TopologyError, match="at most 3000"):
        joined(MOST_NODES + 1, 0, [(0, 1)])
    with pytest.raises(TopologyError, match=r"shortest=True"):
        link_graph(level_names=("server",), level_sizes=(2,), lower=np.array([0]),
                   upper=np.array([1]), gbps=np.ones(1))  # fmt: skip


# In general -----------------------------------------------------------------------------------


@given(fabrics.FABRICS, st.data())
def test_a_route_is_a_path_over_the_lowest_common_switch_and_its_mirror_leads_back(
    topology: Topology, data: st.DataObject
):
    """And servers of one rack meet at the rack's switch."""
    server = st.integers(0, topology.num_servers - 1)
    a, b = data.draw(server), data.draw(server)
    links = fabrics.links_of(topology)
    path = links.path(a, b).tolist()
    assert len(path) <= links.longest_route
    if a == b:
        assert path == []
        return
    visited = nodes_of(links, path)
    assert (visited[0], visited[-1]) == (a, b)
    assert len(set(visited)) == len(visited)
    assert [directed ^ 1 for directed in reversed(links.path(b, a).tolist())] == path
    levels = links.node_level[visited]
    if topology.server_rack[a] == topology.server_rack[b]:
        assert len(path) == 2
    elif links.rule[0]:
        base, places = links.rule.tolist()
        differing = sum(a // base**i % base != b // base**i % base for i in range(places))
        assert len(path) == 2 * differing
    else:
        assert len(path) == 2 * levels.max()
        climb = np.sign(np.diff(levels))
        assert np.all(np.diff(climb) <= 0)  # up, then down: no valley
        assert len(path) == shortest(links, a, b)


@given(st.data())
def test_routes_between_any_nodes_are_shortest_and_mirrored(data: st.DataObject):
    """Routers in a random tree, servers below them, and more links wherever they fall."""
    routers, servers = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 9))
    draw = data.draw
    links = [(servers + draw(st.integers(0, r - 1)), servers + r) for r in range(1, routers)]
    links += [(s, servers + draw(st.integers(0, routers - 1))) for s in range(servers)]
    node = st.integers(0, servers + routers - 1)
    links += [pair for pair in draw(st.lists(st.tuples(node, node))) if pair[0] != pair[1]]
    graph = joined(servers, routers, links)
    a, b = draw(st.permutations(range(servers)))[:2]
    path = graph.path(a, b).tolist()
    visited = nodes_of(graph, path)
    assert (visited[0], visited[-1]) == (a, b)
    assert len(path) == shortest(graph, a, b) <= graph.longest_route
    assert [directed ^ 1 for directed in reversed(graph.path(b, a).tolist())] == path


def shortest(links: LinkGraph, a: int, b: int) -> int:
    """Links of a shortest path, by breadth-first search over the graph alone."""
    neighbours: dict[int, list[int]] = {}
    for lower, upper in links.link_ends.tolist():
        neighbours.setdefault(lower, []).append(upper)
        neighbours.setdefault(upper, []).append(lower)
    reached, front, steps = {a}, [a], 0
    while b not in reached:
        front = [n for node in front for n in neighbours[node] if n not in reached]
        reached |= set(front)
        steps += 1
    return steps


def tops(topology: Topology, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Highest node of the route of each pair."""
    links = fabrics.links_of(topology)
    visits = (nodes_of(links, links.path(a, b).tolist()) for a, b in pairs)
    return [max(visited, key=lambda node: links.node_level[node]) for visited in visits]


@pytest.mark.parametrize(
    ("build", "ways"),
    [
        (lambda: fabrics.a_leaf_spine(servers=64, per_rack=32, spines=8), 8),
        (lambda: fabrics.a_fat_tree(8, None), 16),
        (lambda: fabrics.a_vl2(8, 6, per_rack=6), 4),
    ],
)
def test_routes_spread_over_the_equal_ways(build: Callable[[], Topology], ways: int):
    """Between the halves of the cluster each top switch gets its share, within four deviations."""
    topology = build()
    half = topology.num_servers // 2
    pairs = [(a, b) for a in range(half) for b in range(half, 2 * half)]
    top = int(fabrics.links_of(topology).node_level.max())
    met = np.array(tops(topology, pairs))
    met = met[fabrics.links_of(topology).node_level[met] == top]
    share = np.unique(met, return_counts=True)[1]
    assert len(share) == ways
    mean = len(met) / ways
    assert np.all(np.abs(share - mean) <= 4 * np.sqrt(mean))


def test_bcube_relays_differ_from_pair_to_pair():
    """Half of the two-digit pairs should fix the low digit first."""
    topology = fabrics.a_bcube(8, 1)
    links = fabrics.links_of(topology)
    pairs = [(a, b) for a in range(64) for b in range(a) if a % 8 != b % 8 and a // 8 != b // 8]
    first_level = [
        links.node_level[nodes_of(links, links.path(a, b).tolist())[1]] for a, b in pairs
    ]
    assert 0.45 < np.mean(np.array(first_level) == 1) < 0.55


def test_routes_never_change():
    """Golden: another hash would move every published figure of a shared network."""
    topology = fabrics.a_leaf_spine(servers=32, per_rack=4, spines=4)
    first_spine = 32 + 8
    met = [top - first_spine for top in tops(topology, [(0, b) for b in range(4, 16)])]
    assert met == [2, 2, 0, 3, 2, 2, 3, 0, 2, 3, 2, 2]


# Server 0, eight GPUs: two sockets, four switches, islands of four; server 1: four GPUs, no NVLink.
#   socket   0 0 0 0 1 1 1 1 | 0 0 1 1
#   switch   0 0 1 1 2 2 3 3 | 0 0 1 1
#   island   0 0 0 0 1 1 1 1 | - - - -
PAIRED = ServerInside(
    sockets=2, pcie_switches=4, nvlink_islands=2, nvlink_gbps=400.0, pcie_gbps=128.0,
    socket_gbps=80.0,
)  # fmt: skip
PLAIN = ServerInside(
    sockets=2, pcie_switches=2, nvlink_islands=0, nvlink_gbps=1.0, pcie_gbps=100.0, socket_gbps=50.0
)
INSIDE = inside_of([PAIRED, PLAIN], np.array([0, 1]), np.array([8, 4]))


def test_gpus_are_dealt_evenly_in_order():
    assert INSIDE.gpu_socket.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1]
    assert INSIDE.gpu_switch.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
    assert INSIDE.gpu_island.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, *([NO_ISLAND] * 4)]


@pytest.mark.parametrize(
    ("server", "gpus", "gbps"),
    [
        (0, [3], math.inf),
        (0, [], math.inf),
        (0, [0, 1], 400.0),
        (0, [0, 3], 400.0),  # one island though two switches
        (0, [3, 4], 80.0),
        (0, [0, 1, 2, 7], 80.0),
        (1, [8, 9], 100.0),
        (1, [9, 10], 50.0),
    ],
)
def test_the_slowest_hop_by_hand(server: int, gpus: list[int], gbps: float):
    assert fabrics.slowest_gbps(INSIDE, server, np.array(gpus, dtype=np.int64)) == gbps


one_inside = st.builds(
    lambda sockets, per, islands: ServerInside(
        sockets=sockets, pcie_switches=sockets * per, nvlink_islands=islands, nvlink_gbps=300.0,
        pcie_gbps=100.0, socket_gbps=20.0,
    ),
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 3),
)  # fmt: skip


@given(one_inside, st.integers(1, 12))
def test_all_gpus_are_as_slow_as_the_slowest_pair_and_parts_are_even(one: ServerInside, gpus: int):
    """And a switch belongs to one socket."""
    inside = inside_of([one], np.array([0]), np.array([gpus]))
    pairs = [fabrics.slowest_gbps(inside, 0, np.array(p)) for p in combinations(range(gpus), 2)]
    slowest = fabrics.slowest_gbps(inside, 0, np.arange(gpus))
    assert slowest == min(pairs, default=math.inf)
    if gpus > 1:
        assert one.all_gpus_gbps(gpus) == slowest
    for switch in np.unique(inside.gpu_switch):
        assert len(np.unique(inside.gpu_socket[inside.gpu_switch == switch])) == 1
    sizes = np.bincount(inside.gpu_socket, minlength=one.sockets)
    assert sizes.max() - sizes.min() <= 1


def test_bad_insides_are_refused():
    with pytest.raises(TopologyError, match="multiple of the 2 sockets"):
        replace(PLAIN, pcie_switches=3)
    one, rate = np.zeros(1, dtype=np.int64), np.ones(1)
    with pytest.raises(TopologyError, match="above 0"):
        Inside(one, one, one, rate, rate, rate * np.nan)
    with pytest.raises(TopologyError, match="length"):
        Inside(one, one, np.zeros(2, dtype=np.int64), rate, rate, rate)
