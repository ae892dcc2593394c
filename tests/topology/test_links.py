"""Link graphs that cannot be are refused; names and sizes of those that can."""

import numpy as np
import pytest

from sim.errors import TopologyError
from sim.topology.links import LinkGraph, link_graph
from tests.topology.fabrics import a_bcube, a_leaf_spine, links_of


def graph(**changes: object) -> LinkGraph:
    """Two servers below one switch."""
    values = {
        "level_names": ("server", "switch"),
        "level_sizes": (2, 1),
        "lower": np.array([0, 1]),
        "upper": np.array([2, 2]),
        "gbps": np.array([10.0, 20.0]),
    }
    return link_graph(**{**values, **changes})  # type: ignore[arg-type]


def test_directed_links_go_up_and_down():
    links = graph()
    assert links.directed_gbps.tolist() == [10.0, 10.0, 20.0, 20.0]
    assert links.path(0, 1).tolist() == [0, 3]
    assert links.path(1, 0).tolist() == [2, 1]


def test_names_count_within_a_level():
    links = links_of(a_leaf_spine(servers=4, per_rack=2, spines=2))
    assert [links.node_name(node) for node in range(links.num_nodes)] == [
        "server 0", "server 1", "server 2", "server 3", "leaf 0", "leaf 1", "spine 0", "spine 1",
    ]  # fmt: skip
    assert links_of(a_bcube(2, 1)).node_name(7) == "level-1 switch 1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upper": np.array([2, 3])}, "outside the nodes 0 to 2"),
        ({"upper": np.array([2, 0])}, "lower level to a higher one"),
        ({"gbps": np.array([10.0, 0.0])}, "above 0 Gbps"),
        ({"gbps": np.array([10.0, np.nan])}, "above 0 Gbps"),
        ({"gbps": np.array([10.0])}, "capacities"),
        (
            {"lower": np.array([0, 0]), "upper": np.array([2, 2])},
            "level server have 0 to 2 uplinks",
        ),
    ],
)
def test_impossible_graphs_are_refused(changes: dict[str, object], words: str):
    with pytest.raises(TopologyError, match=words):
        graph(**changes)


def test_servers_without_a_common_switch_are_not_connected():
    links = graph(level_sizes=(2, 2), upper=np.array([2, 3]))
    with pytest.raises(TopologyError, match="server 0 and server 1 are not connected"):
        links.path(0, 1)
