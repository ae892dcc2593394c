"""Dally's network: three tiers by hand, and the six models with their published ratios."""

from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, LayeredCatalogue
from sim.physics.networks import TieredRings
from sim.physics.published_profiles import DallyProfiles
from sim.topology.topology import Topology
from tests.physics.network_worlds import racks

CONF = Path(__file__).parents[2] / "conf"
PLAIN = {
    "names": ("m/1",),
    "gpu_types": ("x",),
    "compute_s": np.ones((1, 1)),
    "sync_bytes": np.array([1e9]),
    "gang_ok": np.ones(1, np.bool_),
    "source": "hand",
}


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
    topology = instantiate(OmegaConf.load(CONF / "topology/dally_4x4.yaml"), _convert_="all")
    profiles = instantiate(OmegaConf.load(CONF / "profiles/dally.yaml"), _convert_="all")
    tables = instantiate(OmegaConf.load(CONF / "network/tiered_rings.yaml")).tables(
        profiles, topology
    )
    bert = profiles.names.index("bert_large/256")
    assert tables.local_s[bert, 8] == pytest.approx(1.639e-3 + 0.063e-3, rel=1e-3)
    assert tables.server_s[bert, 2] == pytest.approx(2.81e-3 + 0.09e-3, rel=1e-3)
    assert tables.rack_s[bert, 2] == pytest.approx(1.405e-3 + 0.9e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"alpha_rack_s": -1.0}, r"alpha_rack_s is -1.*0 or more"),
        ({"overlap_frac": 1.5}, r"overlap_frac is 1.5.*from 0 to 1"),
        ({"layers_in_flight": 0}, r"layers_in_flight is 0.*1 or more"),
    ],
)
def test_bad_constants_are_refused(wrong: dict[str, float], told: str):
    with pytest.raises(PhysicsError, match=told):
        rings(**wrong)


def test_profiles_need_a_gpu_type():
    with pytest.raises(PhysicsError, match=r"gpu_types is empty"):
        DallyProfiles(gpu_types=[])
