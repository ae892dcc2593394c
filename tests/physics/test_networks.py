"""Communication tables by hand: rings, Dally's three tiers, and York's speed model."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sim.errors import PhysicsError, TraceError
from sim.physics.catalogue import Catalogue, LayeredCatalogue
from sim.physics.networks import AlphaBetaRing, NoNetwork, TieredRings, YorkNetwork
from sim.physics.physics import Physics
from sim.physics.published_profiles import DallyProfiles, YorkProfiles
from sim.physics.shipped_files import NoInterference, ShippedProfiles
from sim.topology.generators import leaf_spine
from sim.topology.topology import Topology
from sim.traces.job_traits import ProfileRule
from sim.traces.trace import Trace
from tests.physics.network_worlds import built, catalogue_of, racks
from tests.sim.worlds import Job, fifo, play, world


def catalogue(*sync_bytes: float) -> Catalogue:
    return replace(catalogue_of(len(sync_bytes)), sync_bytes=np.array(sync_bytes))


def even_cluster() -> Topology:
    return racks(servers=6, intra_gbps=80.0, nic_gbps=8.0, oversubscription=1.0)


def ring(**changes: float) -> AlphaBetaRing:
    constants = {"alpha_local_s": 0.0, "alpha_server_s": 0.0, "contention": 0.5,
                 "uplink_free_jobs": 2, "rack_extra": 0.25}  # fmt: skip
    return AlphaBetaRing(**(constants | changes))  # type: ignore[arg-type]


def test_bandwidth_terms_by_hand():
    # 1 GB: 8e9 bit take 0.1 s at 80 Gb/s and 1 s at 8 Gb/s; ring shares are 1, 4/3, 3/2.
    tables = ring().tables(catalogue(1e9), even_cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.1, 0.1 * 4 / 3, 0.15])
    np.testing.assert_allclose(tables.server_s[0], [0, 0, 1, 4 / 3, 1.5, 1.6, 5 / 3])
    np.testing.assert_allclose(tables.rack_s[0], [0, 0, 0.25, 1 / 3])


def test_latency_counts_two_steps_for_every_further_member():
    tables = ring(alpha_local_s=0.001, alpha_server_s=0.01).tables(catalogue(0.0), even_cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.002, 0.004, 0.006])
    np.testing.assert_allclose(tables.server_s[0, :4], [0, 0, 0.02, 0.04])
    np.testing.assert_array_equal(tables.rack_s, 0.0)


def test_contention_starts_at_the_second_job_of_a_nic_and_the_third_of_an_uplink():
    tables = ring().tables(catalogue(1.0), even_cluster())
    np.testing.assert_allclose(tables.nic_factor[:5], [1, 1, 1.5, 2, 2.5])
    np.testing.assert_allclose(tables.uplink_factor[:5], [1, 1, 1, 1.5, 2])
    # They reach every tenant below a link.
    assert (len(tables.nic_factor), len(tables.uplink_factor)) == (4 * 4 + 1, 4 * 8 + 1)


def test_mixed_cluster_uses_its_slowest_links_and_a_negative_constant_is_named():
    slow = replace(even_cluster(), nic_gbps=np.array([8.0, 8, 8, 8, 8, 4]))
    tables = ring().tables(catalogue(1e9, 3e9), slow)
    assert tables.server_s[:, 2] == pytest.approx([2.0, 6.0])  # proportional to bytes
    with pytest.raises(PhysicsError, match=r"network.contention is -1"):
        ring(contention=-1)


def test_no_network_costs_nothing_and_has_the_same_shapes():
    ours, none = (m.tables(catalogue(1e9), even_cluster()) for m in (ring(), NoNetwork()))
    for field in ("local_s", "server_s", "rack_s"):
        assert getattr(none, field).shape == getattr(ours, field).shape
        assert not getattr(none, field).any()
    assert set(none.nic_factor) == set(none.uplink_factor) == {1.0}


PLAIN = {"names": ("m/1",), "gpu_types": ("x",), "compute_s": np.ones((1, 1)),
         "sync_bytes": np.array([1e9]), "gang_ok": np.ones(1, np.bool_),
         "source": "hand"}  # fmt: skip


def cluster() -> Topology:
    """10 GB/s in a server, 1 GB/s between servers, 0.5 GB/s a server between racks."""
    return racks(servers=6, intra_gbps=80.0, nic_gbps=8.0, oversubscription=2.0)


def rings(**changes: float) -> TieredRings:
    constants = {
        "alpha_local_s": 0.0, "alpha_server_s": 0.0, "alpha_rack_s": 0.0, "layers_in_flight": 2,
        "overlap_frac": 0.0, "contention": 0.0,
    }  # fmt: skip
    return TieredRings(**(constants | changes))  # type: ignore[arg-type]


def test_bandwidth_of_each_tier_by_hand():
    # 1 GB takes 0.1, 1 and 2 s; ring shares of 2, 3, 4, 5, 6 members: 1, 4/3, 3/2, 8/5, 5/3.
    tables = rings().tables(Catalogue(**PLAIN), cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.1, 0.4 / 3, 0.15])
    np.testing.assert_allclose(tables.server_s[0], [0, 0, 1, 4 / 3, 1.5, 1.6, 5 / 3])
    np.testing.assert_allclose(tables.rack_s[0], [0, 0, 2, 8 / 3])
    assert rings().links(Catalogue(**PLAIN), cluster()) is None


def test_latency_counts_rounds_of_layers():
    # 5 layers, 2 in flight: 3 rounds, each of 2 (n - 1) steps.
    silent = LayeredCatalogue(**{**PLAIN, "sync_bytes": np.zeros(1)}, layers=np.array([5]))
    network = rings(alpha_local_s=0.001, alpha_server_s=0.01, alpha_rack_s=0.1)
    tables = network.tables(silent, cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.006, 0.012, 0.018])
    np.testing.assert_allclose(tables.server_s[0, :4], [0, 0, 0.06, 0.12])
    np.testing.assert_allclose(tables.rack_s[0], [0, 0, 0.6, 1.2])


def test_overlap_hides_a_share_and_company_divides_the_link():
    tables = rings(overlap_frac=0.75, contention=1.0).tables(Catalogue(**PLAIN), cluster())
    np.testing.assert_allclose(tables.server_s[0, 2], 0.25)
    np.testing.assert_array_equal(tables.nic_factor[:5], [1, 1, 2, 3, 4])
    np.testing.assert_array_equal(tables.uplink_factor[:4], [1, 1, 2, 3])
    alone = rings().tables(Catalogue(**PLAIN), cluster())
    assert set(alone.nic_factor) == set(alone.uplink_factor) == {1.0}


def test_the_six_models_have_their_published_bytes_for_each_ms():
    profiles = DallyProfiles(gpu_types=["a", "b"])
    ratio = profiles.sync_bytes[:, None] / 1e6 / (profiles.compute_s * 1e3)
    published = np.array([202, 138, 259, 8.6, 156, 328])
    np.testing.assert_allclose(ratio, np.stack([published, published], axis=1), rtol=0.01)
    assert profiles.layers.tolist() == [8, 11, 21, 54, 52, 66]


def test_bert_on_the_clusters_that_ship():
    # 562 MB, 9 rounds of 66 layers. In a server of 8: 562 MB x 1.75 / 600 GB/s = 1.639 ms and
    # 9 x 14 x 0.5 us = 0.063 ms. Over 2 servers 562 MB / 200 GB/s = 2.81 ms and 9 x 2 x 5 us;
    # over 2 racks 562 MB / 400 GB/s = 1.405 ms and 9 x 2 x 50 us.
    topology, profiles = built("topology/dally_4x4.yaml"), built("profiles/dally.yaml")
    tables = built("network/tiered_rings.yaml").tables(profiles, topology)
    bert = profiles.names.index("bert_large/256")
    assert tables.local_s[bert, 8] == pytest.approx(1.639e-3 + 0.063e-3, rel=1e-3)
    assert tables.server_s[bert, 2] == pytest.approx(2.81e-3 + 0.09e-3, rel=1e-3)
    assert tables.rack_s[bert, 2] == pytest.approx(1.405e-3 + 0.9e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"alpha_rack_s": -1.0}, r"alpha_rack_s is -1.*0 or more"),
     ({"overlap_frac": 1.5}, r"overlap_frac is 1.5.*from 0 to 1"),
     ({"layers_in_flight": 0}, r"layers_in_flight is 0.*1 or more")],
)  # fmt: skip
def test_bad_constants_are_refused(wrong: dict[str, float], told: str):
    with pytest.raises(PhysicsError, match=told):
        rings(**wrong)
    with pytest.raises(PhysicsError, match=r"gpu_types is empty"):
        DallyProfiles(gpu_types=[])


WEIGHTS = {"gpu_weight": 0.025, "server_weight": 0.25, "rack_weight": 0.5, "rack_slow_frac": 0.2}
MODELS = {"a": {"param_mb": 100.0, "gflops": 10.6}, "b": {"param_mb": 528.0, "gflops": 16.0}}


def network() -> YorkNetwork:
    return YorkNetwork(**WEIGHTS)


def profiles(**given) -> YorkProfiles:
    told = {"gpu_types": ["x"], "tflops": 10.6, "most_gpus": 8, "batches": [100], "models": MODELS}
    return YorkProfiles(**{**told, **given})


def cluster_2x4x4():
    return built("topology/topdrl_2x4x4.yaml")


def test_costs_are_the_published_ones():
    gang = np.arange(1, 9)
    best = network().least_cost(gang, cluster_2x4x4())
    assert best == pytest.approx([0.775, 0.8, 0.825, 0.85, 1.125, 1.15, 1.175, 1.2])
    worst = network().cost(gang, gang, np.minimum(gang, 2))
    assert worst == pytest.approx([0.775, 1.55, 1.825, 2.1, 2.375, 2.65, 2.925, 3.2])


def test_an_iteration_by_hand():
    # Model a: 100 samples of 10.6 GFLOP are 1.06 TFLOP, 0.1 s; 100 MB cost 28.29 ms, times sqrt(4).
    catalogue = profiles()
    row = catalogue.names.index("a x4/100")
    assert catalogue.compute_s[row, 0] == pytest.approx(0.1)
    assert catalogue.sync_s[row] == pytest.approx(0.02829 * 2)
    assert catalogue.tflop[row] == pytest.approx(4 * 1.06)
    two, one = np.array([2]), np.array([1])
    compact = network().step_s(catalogue, np.array([row]), one, one)
    assert compact == pytest.approx([(0.1 + 0.05658) * 0.85 / 0.775])
    apart = network().step_s(catalogue, np.array([row]), two, two)
    assert apart == pytest.approx([(0.1 + 0.05658 * 1.2) * (0.1 + 0.5 + 1.0) / 0.775])
    beyond_500_mb = catalogue.sync_s[catalogue.names.index("b x1/100")]
    assert beyond_500_mb == pytest.approx(0.13977 + 28 * (0.13977 - 0.02829) / 400)


def spreads(gang: int):
    """Every (servers, racks) that a gang can span on 2 racks of 4 servers of 4."""
    for servers in range(-(-gang // 4), min(gang, 8) + 1):
        if servers <= 4:
            yield servers, 1
        if servers >= 2:
            yield servers, 2


def test_tables_are_exact_in_one_rack_and_near_elsewhere():
    shipped = built("profiles/york.yaml")
    tables = network().tables(shipped, cluster_2x4x4())
    for row, gang in enumerate(shipped.gang.tolist()):
        for servers, in_racks in spreads(gang):
            law = network().step_s(
                shipped, np.array([row]), np.array([servers]), np.array([in_racks])
            )
            summed = (
                shipped.compute_s[row, 0] + tables.local_s[row, 1]
                + tables.server_s[row, servers] + tables.rack_s[row, in_racks]
            )  # fmt: skip
            assert summed == pytest.approx(law[0], rel=1e-9 if in_racks == 1 else 0.06)


def test_a_job_on_two_racks_takes_as_much_longer_as_the_law_says():
    topology = leaf_spine(
        name="two", servers=4, gpus_per_server=1, servers_per_rack=2, gpu_types=["x"],
        intra_gbps=400.0, nic_gbps=40.0, oversubscription=2.0,
    )  # fmt: skip
    catalogue = profiles()
    physics = Physics(
        catalogue=catalogue, pairs=NoInterference().pair_table(catalogue),
        network=network().tables(catalogue, topology), reference_gpu="x",
    )  # fmt: skip
    row, alone = catalogue.names.index("a x2/100"), catalogue.names.index("a x1/100")
    # The first job holds a GPU of the first rack, so that first fit puts the other over both.
    jobs = [Job(0, 1, 99.0, profile=alone), Job(1, 2, 10.0, profile=row)]
    two, one, rows = np.array([2]), np.array([1]), np.array([row])
    over_two, in_one = (network().step_s(catalogue, rows, two, racks) for racks in (two, one))
    longer = over_two / in_one
    run = play(world(jobs, topology, physics=physics), fifo(skip_blocked=False))
    assert run.finish_s[1] == pytest.approx(1.0 + 10.0 * longer[0], rel=0.051) and longer > 1.5


def test_a_job_draws_among_the_rows_of_its_gang():
    catalogue = profiles()
    rng = np.random.default_rng(0)
    trace = Trace(
        name="t", job_id=np.array(["p", "q", "r"], dtype=object), submit_s=np.arange(3.0),
        num_gpus=np.array([1, 4, 8]), duration_s=np.ones(3),
        user=np.array([""] * 3, dtype=object), vc=np.array([""] * 3, dtype=object),
    )  # fmt: skip
    drawn = ProfileRule("uniform", None, {}).draw(trace, catalogue, rng)
    assert catalogue.gang[drawn].tolist() == [1, 4, 8]
    small = profiles(most_gpus=4)
    with pytest.raises(TraceError, match="job r: no profile is for 8 GPUs; raise"):
        ProfileRule("uniform", None, {}).draw(trace, small, rng)


@pytest.mark.parametrize(
    ("given", "rule"),
    [({"batches": []}, "name at least one"), ({"tflops": 0.0}, r"profiles\.tflops is 0\.0"),
     ({"models": {"a": {"gflops": 1.0}}}, "needs param_mb and gflops"),
     ({"models": {"a": {"gflops": 0.0, "param_mb": 1.0}}}, "gflops above 0")],
)  # fmt: skip
def test_impossible_profiles_are_refused(given, rule):
    with pytest.raises(PhysicsError, match=rule):
        profiles(**given)


def test_impossible_weights_and_other_profiles_are_refused():
    with pytest.raises(PhysicsError, match=r"network\.rack_weight is -1"):
        YorkNetwork(**{**WEIGHTS, "rack_weight": -1.0})
    assert math.isclose(network().unit_speed, 1 / 0.775)
    with pytest.raises(PhysicsError, match="use profiles=york"):
        network().tables(ShippedProfiles(), cluster_2x4x4())
