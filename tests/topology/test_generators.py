"""Generators, partitions and every file of conf/topology: counts, bandwidth, refusals."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sim.arrays import IntArray
from sim.errors import TopologyError
from sim.topology.generators import leaf_spine
from sim.topology.servers import dealt_servers
from sim.topology.topology import Topology, contiguous_partitions, group_partitions
from tests.topology.fabrics import (
    FABRICS,
    SHAPE,
    a_bcube,
    a_fat_tree,
    a_leaf_spine,
    a_vl2,
    check_tree,
    links_of,
)  # fmt: skip


def level_sizes(topology: Topology) -> list[int]:
    return np.bincount(links_of(topology).node_level).tolist()


@given(FABRICS)
def test_every_fabric_is_a_tree_of_servers_with_shapes_and_types_by_turns(topology: Topology):
    check_tree(topology)
    turns = np.arange(topology.num_servers)
    assert topology.gpus_per_server.tolist() == np.take([2, 1, 3], turns % 3).tolist()
    names = np.array(topology.gpu_types)[topology.server_gpu_type]
    assert names.tolist() == np.take(["p100", "v100"], turns % 2).tolist()
    check_uplinks(topology)


def check_uplinks(topology: Topology) -> None:
    """A rack's uplink is what links of its servers and switch can carry to elsewhere."""
    links = links_of(topology)
    lower, upper = links.link_ends.T
    if links.rule[0]:
        port_gbps = links.link_gbps[0]
        out = topology.uplink_gbps / port_gbps
        assert np.all(out == links.rule[0] * (links.rule[1] - 1))
        return
    switch = lower - topology.num_servers  # switches of level 1 are numbered as the racks are
    leaves = (switch >= 0) & (switch < topology.num_racks)
    out_gbps = np.bincount(switch[leaves], links.link_gbps[leaves], minlength=topology.num_racks)
    assert out_gbps == pytest.approx(topology.uplink_gbps)
    home = upper[lower < topology.num_servers] - topology.num_servers
    assert np.array_equal(home, topology.server_rack)


def test_a_leaf_spines_tree_is_what_it_always_was():
    topology = plain_leaf_spine(
        servers=5, gpus_per_server=2, gpu_types=["b", "a", "b"], oversubscription=4
    )
    assert topology.gpu_types == ("b", "a")
    assert topology.gpu_server.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert topology.server_first_gpu.tolist() == [0, 2, 4, 6, 8, 10]
    assert topology.server_gpu_type.tolist() == [0, 1, 0, 0, 1]
    assert topology.server_rack.tolist() == [0, 0, 1, 1, 2]
    assert topology.nic_gbps.tolist() == [10.0] * 5
    assert topology.uplink_gbps.tolist() == [5.0, 5.0, 2.5]
    assert topology.intra_gbps.tolist() == [80.0] * 5
    assert topology.server_cpu_milli is None and topology.inside is None


@given(st.sampled_from([2, 4, 6, 8, 10]))
def test_counts_of_a_fat_tree(k: int):
    topology = a_fat_tree(k, None)
    assert level_sizes(topology) == [k**3 // 4, k * k // 2, k * k // 2, k * k // 4]
    assert len(links_of(topology).link_gbps) == 3 * k**3 // 4
    assert np.all(topology.uplink_gbps == k / 2 * 10.0)


def test_a_fat_tree_in_part_leaves_empty_pods_out():
    topology = a_fat_tree(4, 7)  # 4 places a pod, 2 an edge switch
    assert level_sizes(topology) == [7, 4, 4, 4]
    assert topology.server_rack.tolist() == [0, 0, 1, 1, 2, 2, 3]


@given(st.sampled_from([2, 4, 6]), st.sampled_from([2, 4, 8]), st.integers(1, 3))
def test_counts_of_vl2(d_a: int, d_i: int, per_rack: int):
    topology = a_vl2(d_a, d_i, per_rack)
    racks = d_a * d_i // 4
    assert level_sizes(topology) == [racks * per_rack, racks, d_i, d_a // 2]
    lower, upper = links_of(topology).link_ends.T
    ports = np.bincount(np.concatenate([lower, upper]))
    first_agg = racks * per_rack + racks
    assert np.all(ports[first_agg : first_agg + d_i] == d_a)
    assert np.all(ports[first_agg + d_i :] == d_i)


@given(st.integers(2, 4), st.integers(1, 3))
def test_counts_of_bcube(n: int, k: int):
    topology = a_bcube(n, k)
    assert level_sizes(topology) == [n ** (k + 1), *([n**k] * (k + 1))]
    lower, upper = links_of(topology).link_ends.T
    ports = np.bincount(np.concatenate([lower, upper]))
    assert np.all(ports[: topology.num_servers] == k + 1)
    assert np.all(ports[topology.num_servers :] == n)


# Bisection: what the first half of the servers can send to the second half --------------------


def bisection_gbps(topology: Topology, first_half: IntArray) -> float:
    """Maximum flow from one half to the other, servers' own links included, in whole Gbps."""
    links = links_of(topology)
    nodes, source, sink = len(links.node_level), len(links.node_level), len(links.node_level) + 1
    lower, upper = links.link_ends.T
    half = np.isin(np.arange(topology.num_servers), first_half)
    servers = np.arange(topology.num_servers)
    tail = np.concatenate([lower, upper, np.full(half.sum(), source), servers[~half]])
    head = np.concatenate([upper, lower, servers[half], np.full((~half).sum(), sink)])
    big = 10**6
    room = np.concatenate([links.link_gbps, links.link_gbps, np.full(len(servers), big)])
    graph = csr_array((room.astype(np.int32), (tail, head)), shape=(nodes + 2, nodes + 2))
    return float(maximum_flow(graph, source, sink).flow_value)


@pytest.mark.parametrize(
    ("topology", "gbps"),
    [
        (a_leaf_spine(servers=16, per_rack=4, spines=2), 16 / 2 * 10 / 2),  # S / 2 * nic / over
        (a_fat_tree(4, None), 16 / 2 * 10),  # k^3 / 8 * nic
        (a_fat_tree(6, None), 54 / 2 * 10),
        (a_vl2(4, 4, per_rack=40), 4 * 2 / 2 * 10),  # D_A D_I / 4 * fabric, when servers give more
        (a_vl2(4, 4, per_rack=4), 8 * 1),  # S / 2 * nic, when they give less
        (a_bcube(4, 1), 16 / 2 * 10),  # n^(k + 1) / 2 * port, n even
        (a_bcube(2, 2), 8 / 2 * 10),
    ],
    ids=["leaf_spine", "fat_tree4", "fat_tree6", "vl2_full", "vl2_light", "bcube41", "bcube22"],
)
def test_bisection_bandwidth_is_as_the_formula_says(topology: Topology, gbps: float):
    half = np.arange(topology.num_servers // 2)
    assert bisection_gbps(topology, half) == gbps


# Refusals -------------------------------------------------------------------------------------


def plain_leaf_spine(**changes: object) -> Topology:
    values = {"servers": 4, "servers_per_rack": 2, "nic_gbps": 10.0, "oversubscription": 1.0}
    return leaf_spine(**{**SHAPE, **values, **changes})  # type: ignore[arg-type]


INSIDE = {"sockets": 2, "pcie_switches": 4, "nvlink_islands": 1, "nvlink_gbps": 400,
          "pcie_gbps": 128, "socket_gbps": 80}  # fmt: skip


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: a_fat_tree(3, None), "topology.k is 3"),
        (lambda: a_fat_tree(10**6, 4), "topology.k is 1000000"),
        (lambda: a_fat_tree(4, 17), "topology.servers is 17; a fat-tree of k=4 has 16"),
        (lambda: a_vl2(3, 4, 1), "topology.aggregation_ports is 3"),
        (lambda: a_vl2(10**5, 10**5, 1), "topology.servers is"),
        (lambda: a_bcube(1, 2), "topology.n is 1"),
        (lambda: a_bcube(10, 9), "topology.k is 9"),
        (lambda: a_bcube(2, 10**9), "topology.k is 1000000000"),
        (lambda: plain_leaf_spine(servers=0), "topology.servers is 0; it must be at least 1"),
        (lambda: plain_leaf_spine(spines=0), "topology.spines is 0"),
        (lambda: plain_leaf_spine(nic_gbps=float("nan")), "topology.nic_gbps is nan"),
        (lambda: plain_leaf_spine(nic_gbps=1e-320), "topology.nic_gbps is 1e-320; it must be from"),
        (lambda: plain_leaf_spine(nic_gbps=1e308), "nic_gbps is 1e+308; it must be from 1e-6 to"),
        (lambda: plain_leaf_spine(oversubscription=-1.0), "topology.oversubscription is -1"),
        (lambda: plain_leaf_spine(gpu_types=[]), "topology.gpu_types is empty"),
        (lambda: plain_leaf_spine(gpu_types="p100"), "must be a list, like ['p100']"),
        (lambda: plain_leaf_spine(servers=4.0), "servers is 4.0; it must be a whole number; write"),
        (lambda: plain_leaf_spine(servers="4"), "servers is '4'; it must be a whole number"),
        (lambda: plain_leaf_spine(gpus_per_server=4.0), "gpus_per_server is 4.0; it must be a"),
        (lambda: plain_leaf_spine(cpu_milli=0.5), "cpu_milli is 0.5; it must be a whole number"),
        (lambda: a_fat_tree(4, "8"), "topology.servers is '8'"),
        (lambda: plain_leaf_spine(gpus_per_server=[]), "topology.gpus_per_server is empty"),
        (lambda: plain_leaf_spine(gpus_per_server=[8, 0]), "topology.gpus_per_server is 0"),
        (lambda: plain_leaf_spine(cpu_milli=-5), "topology.cpu_milli is -5"),
        (lambda: plain_leaf_spine(inside={**INSIDE, "sokets": 1}), "did you mean 'sockets'"),
        (lambda: plain_leaf_spine(inside={"sockets": 2}), "inside.pcie_switches is missing"),
        (lambda: plain_leaf_spine(inside={**INSIDE, "sockets": 3}), "multiple of the 3 sockets"),
        (lambda: plain_leaf_spine(inside={**INSIDE, "sockets": 1.5}), "sockets is 1.5; it must be"),
        (lambda: plain_leaf_spine(inside={**INSIDE, "pcie_gbps": "x"}), "must be a number"),
    ],
)
def test_impossible_fabrics_are_refused_by_name(build: Callable[[], Topology], words: str):
    with pytest.raises(TopologyError) as caught:
        build()
    assert words in str(caught.value)


@pytest.mark.parametrize("rack", [[0, 1, 0, 1], [0, 0, 1, 2], [0, 0, 0, 0], [1, 1, 2, 2]])
def test_a_fabric_whose_racks_are_not_in_order_is_refused(rack: list[int]):
    """The kernel takes the servers of a rack to be neighbours."""
    servers = dealt_servers(
        servers=4, gpus_per_server=1, gpu_types=["p100"], intra_gbps=80.0, nic_gbps=10.0,
        cpu_milli=None, memory_mib=None, inside=None,
    )  # fmt: skip
    links = links_of(plain_leaf_spine())
    with pytest.raises(TopologyError, match="topology mine: server_rack must ascend over the rack"):
        servers.wired(
            name="mine", server_rack=np.array(rack), uplink_gbps=np.full(2, 20.0), links=links
        )


def test_described_capacities_reach_the_topology():
    topology = plain_leaf_spine(cpu_milli=96000, memory_mib=1024, inside=INSIDE)
    assert topology.server_cpu_milli.tolist() == [96000] * 4
    assert topology.server_memory_mib.tolist() == [1024] * 4
    assert len(topology.inside.gpu_socket) == topology.num_gpus


def grouped(groups: list[str]) -> Topology:
    topology = a_leaf_spine(servers=len(groups), per_rack=2, spines=1)  # GPUs 2 1 3 2 1 3 ...
    return replace(topology, server_group=np.array(groups, dtype=np.object_))


def test_groups_are_dealt_by_size():
    # GPUs of a: 2 + 1 = 3, of b: 3 + 2 = 5, of c: 1; b first, then a to the other, c to a's
    topology = grouped(["a", "a", "b", "b", "c"])
    assert group_partitions(topology, 2).tolist() == [1, 1, 0, 0, 1]
    assert group_partitions(topology, 3).tolist() == [1, 1, 0, 0, 2]
    assert group_partitions(topology, 1).tolist() == [0] * 5


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.data())
def test_groups_stay_whole_and_every_partition_gets_one(groups: list[str], data: st.DataObject):
    topology = grouped(groups)
    count = data.draw(st.integers(1, len(set(groups))))
    partition = group_partitions(topology, count)
    assert set(partition.tolist()) == set(range(count))
    owner = dict(zip(groups, partition.tolist(), strict=True))
    assert [owner[group] for group in groups] == partition.tolist()
    gpus = np.bincount(partition, topology.gpus_per_server, count)
    largest = max(
        topology.gpus_per_server[np.array(groups) == group].sum() for group in set(groups)
    )
    assert gpus.max() - gpus.min() <= largest


def test_impossible_divisions_are_refused():
    with pytest.raises(TopologyError, match=r"agents\.count is 3; the cluster t has 2 groups"):
        group_partitions(grouped(["a", "b"]), 3)
    with pytest.raises(TopologyError, match="has no groups"):
        group_partitions(a_leaf_spine(servers=4, per_rack=2, spines=1), 1)
    with pytest.raises(TopologyError, match=r"agents\.count is 5"):
        contiguous_partitions(a_leaf_spine(servers=4, per_rack=2, spines=1), 5)


@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_contiguous_partitions_are_runs_and_keep_racks_where_they_divide(
    servers: int, per_rack: int, data: st.DataObject
):
    topology = a_leaf_spine(servers=servers, per_rack=per_rack, spines=1)
    count = data.draw(st.integers(1, servers))
    partition = contiguous_partitions(topology, count)
    assert np.all(np.diff(partition) >= 0)
    assert set(partition.tolist()) == set(range(count))
    if topology.num_racks % count == 0:
        for rack in range(topology.num_racks):
            assert len(set(partition[topology.server_rack == rack])) == 1


ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in (ROOT / "conf" / "topology").glob("*.yaml"))
NEED_A_PATH = {
    "described": ["topology.path=docs/examples/cluster.yaml"],
    "node_list": [
        "topology.path=docs/examples/inventory.csv",
        "topology.columns.server=server",
        "topology.columns.rack=rack",
        "topology.gpus=8",
        "topology.gpu_type=p100",
    ],
}


def values_of(name: str) -> dict[str, Any]:
    """The group file as a program composes it, with the data folder filled in."""
    extra = [word.replace("docs/", f"{ROOT}/docs/") for word in NEED_A_PATH.get(name, [])]
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose(overrides=[f"+topology={name}", *extra])
    values = OmegaConf.to_container(config.topology, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


@cache
def build(name: str) -> Topology:
    data = Path(os.environ.get("GPUYARD_DATA", ROOT.parent / "shared" / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUYARD_DATA", str(data.resolve()))
        values = values_of(name)
    path = values.get("path")
    if path and not Path(path).exists():
        pytest.skip(f"{path} is not here: set GPUYARD_DATA to a folder with public node lists")
    return instantiate(values, _convert_="all")


@pytest.mark.parametrize("name", FILES)
def test_every_file_builds(name: str):
    topology = build(name)
    check_tree(topology)
    if name not in NEED_A_PATH:
        assert topology.name == name
        text = (ROOT / "conf" / "topology" / f"{name}.yaml").read_text()
        told = re.search(r"(\d[\d,]*) GPUs", text.splitlines()[0])
        assert told and int(told.group(1).replace(",", "")) == topology.num_gpus
        racks = re.search(r"(\d[\d,]*) racks", text)
        assert racks is None or int(racks.group(1).replace(",", "")) == topology.num_racks
    far = topology.num_servers - 1
    hops = len(links_of(topology).path(0, far))
    assert (2 if topology.num_racks > 1 else 1) < hops <= links_of(topology).longest_route


def test_nothing_grows_with_pairs_of_servers():
    """100,000 GPUs: pairs of servers would need a thousand times as much."""
    links = links_of(build("huge_leaf_spine"))
    held = sum(v.nbytes for v in vars(links).values() if isinstance(v, np.ndarray))
    assert held < 2 * 2**20


# Facts of the public lists, from their own documentation and the trace papers -----------------


@pytest.mark.parametrize(
    ("name", "servers", "gpus"),
    [
        ("openb_nodes", 1213, 6212),
        ("pai_machines", 1814, 6742),
        ("lingjun", 847, 6776),
        ("philly_vcs", 352, 2816),
        ("helios_venus_vcs", 135, 1080),
        ("helios_earth_vcs", 151, 1208),
        ("spot_nodes", 4278, 10412),
    ],
)
def test_sizes_of_public_lists(name: str, servers: int, gpus: int):
    topology = build(name)
    assert (topology.num_servers, topology.num_gpus) == (servers, gpus)


def test_lingjun_is_a_clos_of_three_tiers():
    topology = build("lingjun")
    links = links_of(topology)
    sizes = np.bincount(links.node_level)
    assert (topology.num_racks, sizes[2] // sizes[3]) == (119, 3)
    assert np.bincount(topology.server_rack).max() == 8
    assert topology.inside is not None
