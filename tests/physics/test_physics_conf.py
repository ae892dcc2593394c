"""Every physics, network, link and belief file builds what it names; the reference placement."""

from dataclasses import replace

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from sim.errors import PhysicsError, TopologyError
from sim.physics.catalogue import Catalogue
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN
from sim.physics.reference import compact_gpus, reference_comm_s
from sim.physics.shared_links import MOST_SPANNED, KWay, Pattern, PatternByModel, link_tables
from sim.physics.shipped_files import ShippedProfiles
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING
from sim.topology.links import LinkGraph, link_graph
from tests.contract.compositions import CONF
from tests.physics import network_worlds as worlds
from tests.physics.network_worlds import GB, built, catalogue_of, network_of, racks, traffic_of
from tests.topology.test_generators import FILES, build


def load(name: str):
    return OmegaConf.load(CONF / name)


@pytest.mark.parametrize("name", FILES)
def test_every_link_network_on_every_topology(name: str) -> None:
    topology, catalogue = build(name), ShippedProfiles()
    heavy = int(np.argmax(catalogue.sync_bytes))
    for network in ("kway", "duty", "max_min"):
        model = built(f"network/{network}.yaml")
        links, tables = model.links(catalogue, topology), model.tables(catalogue, topology)
        assert len(links.server) == topology.num_servers
        assert (tables.server_s[heavy, 2:] > 0).all() and not tables.server_s[:, :2].any()
    gangs = np.array([1, 2, 16])  # alone: the same under every law
    comm_s = reference_comm_s(links, topology, len(catalogue.names), gangs)[heavy]
    assert comm_s[0] == 0.0 < comm_s[1] < comm_s[2] < np.inf


def test_profiles_and_interference_shipped():
    catalogue = built("profiles/shipped.yaml")
    for name in ("none", "shipped"):
        assert built(f"interference/{name}.yaml").pair_table(catalogue).source == name


@pytest.mark.parametrize("name", ["alpha_beta", "none"])
def test_tables_alone_have_no_links(name):
    model = built(f"network/{name}.yaml")
    tables = model.tables(ShippedProfiles(), racks(gpus=8))
    assert tables.server_s.shape == (24, 5)
    assert (tables.server_s.max() > 0) == (name == "alpha_beta")
    assert model.links(ShippedProfiles(), build("small_leaf_spine")) is None


def test_mixes_and_host():
    pairs = built("interference/shipped.yaml").pair_table(ShippedProfiles())
    assert built("mixes/pair_sum.yaml").table(pairs) is None
    config = OmegaConf.create({"max_tenants": 4, "mixes": load("mixes/power.yaml")})
    law = instantiate(config.mixes)
    assert law.table(pairs).slowdown.shape == (3, 24, 24 + 300 + 2600)
    topology, shared = racks(servers=2, gpus=8), built("host/shared.yaml")
    assert built("host/none.yaml").tables(ShippedProfiles(), topology) is None
    tables = shared.tables(ShippedProfiles(), topology)
    assert tables.server_cpu_milli.tolist() == [32_000, 32_000]
    assert tables.server_pcie_mbs.tolist() == [48_000, 48_000]
    with pytest.raises(PhysicsError, match="use profiles=shipped"):
        shared.tables(Catalogue(**{**vars(ShippedProfiles()), "host": None}), topology)


@pytest.mark.parametrize("path", ["interference/measured.yaml", "profiles/measured.yaml"])
def test_measured_reads_the_environment(path, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUYARD_DATA", str(tmp_path))
    with pytest.raises(Exception, match=str(tmp_path)):  # hydra wraps the missing file's error
        instantiate(load(path))


@pytest.mark.parametrize("name", ["none", "linear", "learned", "cautious", "oracle"])
def test_belief(name):
    belief = load(f"belief/{name}.yaml")
    assert belief.info == name  # what tables of results call it
    if name in {"none", "oracle"}:
        assert belief.model is None
    else:
        table = instantiate(belief.model).pair_table(ShippedProfiles())
        assert table.slowdown.shape == (3, 24, 24)


RING_RULE = {"pattern": "ring", "ps_count": 1, "stages": 1, "tensor_width": 1,
             "activation_frac": 0.0, "tensor_frac": 0.0}  # fmt: skip
CONSTANTS = {"alpha_local_s": 0.0, "alpha_server_s": 0.0, "overlap_frac": 0.0}


@pytest.mark.parametrize(
    ("name", "sharing"), [("max_min", MAX_MIN), ("kway", K_WAY), ("duty", DUTY)]
)
def test_files_build(name, sharing):
    network = worlds.built(f"network/{name}.yaml").links(ShippedProfiles(), racks())
    assert network.sharing == sharing
    assert network.profile["pattern"].tolist() == [RING] * 24
    assert network.capacity.tolist() == [10 * GB] * 12  # 4 NICs, 2 uplinks of 2 x 10 / 2, each way


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"overlap_frac": 1.0}, "overlap_frac is 1.0"),
        ({"alpha_server_s": -1.0}, "alpha_server_s is -1.0"),
        ({"alpha_local_s": float("nan")}, "alpha_local_s is nan"),
        ({"eta_frac": float("inf")}, "eta_frac is inf"),
        ({"pattern": "mesh"}, "'mesh'; use one of ring, parameter_server, mix"),
        ({"ps_count": 0}, "ps_count is 0"),
        ({"ps_count": 2.5}, "ps_count is 2.5; it must be a whole number from 1"),
        ({"stages": 1.5}, "stages is 1.5"),
        ({"tensor_width": 1.5}, "tensor_width is 1.5"),
        ({"tensor_frac": -0.5}, "tensor_frac is -0.5"),
    ],
)
def test_constants_and_patterns_are_checked(changed, message):
    told = RING_RULE | CONSTANTS | {"eta_frac": 0.3} | changed
    with pytest.raises(PhysicsError, match=message):
        KWay(traffic=Pattern(**{key: told.pop(key) for key in RING_RULE}), **told)


def test_patterns_by_model():
    rule = PatternByModel(
        default=Pattern(**RING_RULE),
        models={
            "m1": Pattern(**(RING_RULE | {"pattern": "parameter_server", "ps_count": 2})),
            "m2/1": Pattern(**(RING_RULE | {"pattern": "mix", "activation_frac": 0.5})),
        },
    )
    traffic = rule.traffic(catalogue_of(3))
    assert traffic.pattern.tolist() == [RING, PARAMETER_SERVER, MIX]
    assert traffic.ps_count.tolist() == [1, 2, 1]
    assert traffic.activation_bytes.tolist() == [0.0, 0.0, 0.5 * GB]
    with pytest.raises(PhysicsError, match="'m1', which the profiles lack"):
        rule.traffic(catalogue_of(1))


def test_the_compact_placement_prefers_large_servers_of_one_rack():
    # Racks of 2 servers; sizes by turns 2, 4, 4, 4: the two of four in rack 1 are neighbours.
    topology = racks(gpus=[2, 4, 4, 4], oversubscription=1.0)
    assert compact_gpus(topology, 3).tolist() == [6, 7, 8]
    assert compact_gpus(topology, 8).tolist() == [6, 7, 8, 9, 10, 11, 12, 13]
    assert compact_gpus(topology, 10).tolist() == [*range(6, 14), 2, 3]
    assert len(compact_gpus(topology, 99)) == 14


def test_reference_time_by_hand():
    """M = 10 Gbit, servers of 4 at 100 Gbps inside, 10 Gbps outside.

    4 GPUs: ring of 4 inside: 1.5 x 10 / 100 s. 8 GPUs: the same, then a ring of 2 servers:
    1 x 10 / 10 s. 1 GPU: nothing. A quarter of it hides behind compute.
    """
    network = network_of(racks(), traffic_of({"grad_bytes": 10 * GB}), overlap_frac=0.25)
    comm_s = reference_comm_s(network, racks(), 1, np.array([8, 4, 1, 8]))[0]
    assert comm_s == pytest.approx([0.75 * 1.15, 0.75 * 0.15, 0.0, 0.75 * 1.15], rel=1e-12)


def test_inside_classes_set_the_local_time():
    """8 GPUs: islands 0-3 and 4-7 of 200 Gbps; between them the sockets' 20 Gbps."""
    inside = {"sockets": 2, "pcie_switches": 4, "nvlink_islands": 2, "nvlink_gbps": 200.0,
              "pcie_gbps": 80.0, "socket_gbps": 20.0}  # fmt: skip
    topology = racks(gpus=8, inside=inside)
    network = network_of(topology, traffic_of({"grad_bytes": 10 * GB}))

    def local_s(*gpus: int) -> float:
        return worlds.placement_seconds(network, topology, 0, np.array(gpus))[0]

    assert local_s(0, 3) == pytest.approx(10 / 200)
    assert local_s(3, 4) == pytest.approx(10 / 20)
    assert local_s(0, 1, 2, 3) == pytest.approx(1.5 * 10 / 200)
    assert local_s(*range(8)) == pytest.approx(1.75 * 10 / 20)


def test_a_shard_beside_a_lone_worker_uses_the_host():
    inside = {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 0, "nvlink_gbps": 1.0,
              "pcie_gbps": 80.0, "socket_gbps": 20.0}  # fmt: skip
    topology = racks(gpus=4, inside=inside)
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": 10 * GB})
    network = network_of(topology, traffic)
    seconds = worlds.placement_seconds(network, topology, 0, np.array([0, 4]))
    assert seconds == pytest.approx((10 / 20, 10 / 10))


@given(st.integers(1, 8), st.lists(st.integers(0, 5), min_size=2, max_size=6))
def test_no_spread_of_workers_and_shards_is_faster_than_one_server(shards, hosts):
    """All links have one rate; four shards of four workers take 1.75 M inside, 1.5 + 0.25 apart."""
    topology = racks(servers=6, per_rack=6, gpus=6, nic_gbps=10.0, intra_gbps=10.0)
    row = {"pattern": PARAMETER_SERVER, "ps_count": shards}
    network = network_of(topology, traffic_of(row))

    def seconds(on: list[int]) -> float:
        gpus = np.array([6 * server + worker for worker, server in enumerate(on)])
        return sum(worlds.placement_seconds(network, topology, 0, gpus))

    compact_s, apart_s = seconds([0] * len(hosts)), seconds(list(range(len(hosts))))
    assert compact_s <= seconds(hosts) * (1 + 1e-12)
    assert compact_s == pytest.approx(apart_s)


def graph_of(upper: list[int], lower: list[int], *sizes: int, **more: bool) -> LinkGraph:
    """Links of 1 Gbps from `lower` to `upper` on levels of these sizes."""
    names = ("server", "leaf", "spine")[: len(sizes)]
    return link_graph(level_names=names, level_sizes=sizes, lower=np.array(lower),
                      upper=np.array(upper), gbps=np.ones(len(lower)), **more)  # fmt: skip


def test_links_that_do_not_reach_a_server_are_refused():
    with pytest.raises(PhysicsError, match=r"c has no link graph.*network=alpha_beta"):
        network_of(replace(racks(), links=None), traffic_of({}))
    # Two racks below spines of their own, which nothing joins.
    apart = graph_of([4, 4, 5, 5, 6, 7], [0, 1, 2, 3, 4, 5], 4, 2, 2)
    with pytest.raises(PhysicsError, match="has 4 servers, the topology 6"):
        network_of(replace(racks(servers=6), links=apart), traffic_of({}))
    # Two ports a server: by chance of the hash server 0 reaches all, but 1 and 2 share no switch.
    missed = graph_of([4, 6, 5, 6, 4, 6, 4, 6], [0, 0, 1, 1, 2, 2, 3, 3], 4, 3)
    assert [len(missed.path(0, server)) for server in (1, 2, 3)] == [2, 2, 2]
    with pytest.raises(TopologyError):
        missed.path(1, 2)
    # Server 0 hangs on the spine itself, a level above the others' leaf.
    unequal = graph_of([5, 4, 4, 4, 5], [0, 1, 2, 3, 4], 4, 1, 1)
    alone = graph_of([4, 4, 4], [0, 1, 3], 4, 1, shortest=True)  # no link reaches server 2
    for graph, words in (
        (apart, "to server 2"), (missed, "to server 1; join"), (unequal, "to server 1; join"),
        (alone, "to server 2; join"),
    ):  # fmt: skip
        with pytest.raises(PhysicsError, match=f"from server 0 {words}"):
            network_of(replace(racks(), links=graph), traffic_of({}))


def test_rings_on_compact_placements_are_told_as_they_are():
    """Uplinks as wide as their NICs: nothing but the servers spanned counts."""
    topology = racks(servers=12, per_rack=4, oversubscription=1.0)
    network = network_of(topology, traffic_of({"grad_bytes": 3 * GB}), overlap_frac=0.25,
                         alpha_local_s=1e-5, alpha_server_s=5e-5)  # fmt: skip
    tables = link_tables(network, catalogue_of(1), topology)
    gangs = np.array([1, 2, 3, 4, 8, 12, 16, 32, 48])
    local, servers = np.minimum(gangs, 4), -(-gangs // 4)
    told_s = tables.local_s[0, local] + tables.server_s[0, servers]
    real_s = reference_comm_s(network, topology, 1, gangs)[0]
    assert told_s == pytest.approx(real_s, rel=1e-12)
    assert tables.rack_s.tolist() == [[0.0] * 4]


def test_narrow_uplinks_add_to_crossing_racks():
    """Rings of 10 Gbit on NICs of 10 Gbps, uplinks of 4 x 10 / 8 = 5: 2 s in place of 1 s."""
    topology = racks(servers=8, per_rack=4, oversubscription=8.0)
    network = network_of(topology, traffic_of({"grad_bytes": 10 * GB}))
    tables = link_tables(network, catalogue_of(1), topology)
    assert tables.server_s[0, 2] == pytest.approx(1.0)
    assert tables.rack_s[0] == pytest.approx([0.0, 0.0, 1.0])
    across = worlds.placement_seconds(network, topology, 0, np.array([0, 16]))
    assert across[1] == pytest.approx(tables.server_s[0, 2] + tables.rack_s[0, 2])


def test_incast_of_a_parameter_server_is_told_and_tables_of_a_large_cluster_stay_small():
    """3 servers of 4: 8 workers push 5 Gbit each into one NIC of 10 Gbps."""
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": 5 * GB})
    tables = link_tables(network_of(racks(), traffic), catalogue_of(1), racks())
    assert tables.server_s[0, 3] == pytest.approx(8 * 5 / 10)
    large = racks(servers=1000, per_rack=4, gpus=8, oversubscription=1.0)
    tables = link_tables(network_of(large, traffic_of({})), catalogue_of(1), large)
    assert tables.server_s.shape == tables.rack_s.shape == (1, MOST_SPANNED + 1)


def test_factors_follow_the_law():
    topology = racks(servers=4, per_rack=4, oversubscription=2.0)
    traffic = traffic_of({"grad_bytes": 10 * GB})

    def factors(sharing: int, eta_frac: float = 0.0) -> tuple[list[float], list[float]]:
        network = network_of(topology, traffic, sharing=sharing, eta_frac=eta_frac)
        tables = link_tables(network, catalogue_of(1), topology)
        return tables.nic_factor[:5].tolist(), tables.uplink_factor[:5].tolist()

    # The uplink has room for two NICs.
    assert factors(MAX_MIN) == ([1.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.5, 2.0])
    assert factors(K_WAY, 0.3)[0] == pytest.approx([1.0, 1.0, 2.3, 3.6, 4.9])
    # Compute 1 s, 1.5 x 10 / 100 s inside, 1 s between two servers: busy 1 / 2.15 of the time.
    busy = 1.0 / 2.15
    assert factors(DUTY)[0] == pytest.approx([1.0, 1.0, 1 + busy, 1 + 2 * busy, 1 + 3 * busy])
