"""Small fabrics by their own parameters; what they have in common is fixed."""

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from sim.topology.generators import bcube, fat_tree, leaf_spine, vl2
from sim.topology.links import STEPS, LinkGraph
from sim.topology.topology import Inside, Topology, slowest_hop_gbps

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
RATES = ("gpu_switch", "gpu_island", "nvlink_gbps", "pcie_gbps", "socket_gbps")
SHAPE = {"name": "t", "gpus_per_server": [2, 1, 3], "gpu_types": ["p100", "v100"],
         "intra_gbps": 80.0}  # fmt: skip


def a_leaf_spine(servers: int, per_rack: int, spines: int) -> Topology:
    return leaf_spine(**SHAPE, servers=servers, servers_per_rack=per_rack, nic_gbps=10.0,
                      oversubscription=2.0, spines=spines)  # fmt: skip


def a_fat_tree(k: int, servers: int | None) -> Topology:
    return fat_tree(**SHAPE, k=k, servers=servers, nic_gbps=10.0, fabric_gbps=10.0)


def a_vl2(d_a: int, d_i: int, per_rack: int) -> Topology:
    return vl2(**SHAPE, aggregation_ports=d_a, intermediate_ports=d_i, servers_per_rack=per_rack,
               nic_gbps=1.0, fabric_gbps=10.0)  # fmt: skip


def a_bcube(n: int, k: int) -> Topology:
    return bcube(**SHAPE, n=n, k=k, port_gbps=10.0)


def links_of(topology: Topology) -> LinkGraph:
    assert topology.links is not None
    return topology.links


FABRICS = st.one_of(
    st.builds(a_leaf_spine, st.integers(1, 40), st.integers(1, 9), st.integers(1, 5)),
    st.builds(a_fat_tree, k=st.sampled_from([2, 4, 6, 8]), servers=st.none()),
    st.integers(1, 5).flatmap(
        lambda half: st.builds(a_fat_tree, k=st.just(2 * half), servers=st.integers(1, 2 * half**3))
    ),
    st.builds(a_vl2, st.sampled_from([2, 4, 6, 8]), st.sampled_from([2, 4, 6]), st.integers(1, 4)),
    st.builds(a_bcube, n=st.integers(2, 4), k=st.integers(1, 3)),
)


def check_tree(topology: Topology) -> None:
    """What every consumer of a topology relies on."""
    servers = topology.num_servers
    first = topology.server_first_gpu
    assert (first[0], first[-1]) == (0, topology.num_gpus)
    assert np.array_equal(topology.gpu_server, np.repeat(np.arange(servers), np.diff(first)))
    assert np.all(np.diff(topology.server_rack) >= 0)
    assert np.array_equal(np.unique(topology.server_rack), np.arange(topology.num_racks))
    assert set(topology.server_gpu_type.tolist()) <= set(range(len(topology.gpu_types)))
    for column in (topology.nic_gbps, topology.intra_gbps, topology.server_gpu_type):
        assert len(column) == servers
    assert np.all(topology.uplink_gbps > 0)
    links = links_of(topology)
    assert links.num_servers == servers
    check_links(links)


def check_links(links: LinkGraph) -> None:
    """Every link starts at the node that counts it; with shortest paths it has two such ends."""
    assert np.array_equal(links.node_level, np.sort(links.node_level))
    times = 2 if links.route_kind == STEPS else 1
    assert sorted(links.up_link.tolist()) == sorted([*range(len(links.link_gbps))] * times)
    for node, uplinks in enumerate(np.split(links.up_link, links.first_up[1:-1])):
        assert (links.link_ends[uplinks, :times] == node).any(axis=1).all()


def slowest_gbps(inside: Inside, server: int, gpus: np.ndarray) -> float:
    """Rate of the slowest hop among `gpus` (global ids, all of `server`); inf for one GPU."""
    return float(slowest_hop_gbps(*(getattr(inside, name) for name in RATES), server, gpus))
