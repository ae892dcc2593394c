"""Communication tables against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.networks import AlphaBetaRing, NoNetwork
from sim.topology.topology import Topology
from tests.physics.network_worlds import catalogue_of, racks


def catalogue(*sync_bytes: float) -> Catalogue:
    return replace(catalogue_of(len(sync_bytes)), sync_bytes=np.array(sync_bytes))


def cluster() -> Topology:
    return racks(servers=6, intra_gbps=80.0, nic_gbps=8.0, oversubscription=1.0)


def ring(**changes: float) -> AlphaBetaRing:
    constants = {
        "alpha_local_s": 0.0,
        "alpha_server_s": 0.0,
        "contention": 0.5,
        "uplink_free_jobs": 2,
        "rack_extra": 0.25,
    }
    return AlphaBetaRing(**(constants | changes))  # type: ignore[arg-type]


def test_bandwidth_terms_by_hand():
    # 1 GB: 8e9 bit take 0.1 s at 80 Gb/s and 1 s at 8 Gb/s; ring shares are 1, 4/3, 3/2.
    tables = ring().tables(catalogue(1e9), cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.1, 0.1 * 4 / 3, 0.15])
    np.testing.assert_allclose(tables.server_s[0], [0, 0, 1, 4 / 3, 1.5, 1.6, 5 / 3])
    np.testing.assert_allclose(tables.rack_s[0], [0, 0, 0.25, 1 / 3])


def test_latency_counts_two_steps_for_every_further_member():
    tables = ring(alpha_local_s=0.001, alpha_server_s=0.01).tables(catalogue(0.0), cluster())
    np.testing.assert_allclose(tables.local_s[0], [0, 0, 0.002, 0.004, 0.006])
    np.testing.assert_allclose(tables.server_s[0, :4], [0, 0, 0.02, 0.04])
    np.testing.assert_array_equal(tables.rack_s, 0.0)


def test_contention_starts_at_the_second_job_of_a_nic_and_the_third_of_an_uplink():
    tables = ring().tables(catalogue(1.0), cluster())
    np.testing.assert_allclose(tables.nic_factor[:5], [1, 1, 1.5, 2, 2.5])
    np.testing.assert_allclose(tables.uplink_factor[:5], [1, 1, 1, 1.5, 2])


def test_factors_reach_every_tenant_below_a_link():
    tables = ring().tables(catalogue(1.0), cluster())
    assert len(tables.nic_factor) == 4 * 4 + 1
    assert len(tables.uplink_factor) == 4 * 8 + 1


def test_mixed_cluster_uses_its_slowest_links():
    topology = cluster()
    slow = replace(topology, nic_gbps=np.array([8.0, 8, 8, 8, 8, 4]))
    tables = ring().tables(catalogue(1e9), slow)
    assert tables.server_s[0, 2] == pytest.approx(2.0)


def test_time_is_proportional_to_bytes():
    tables = ring().tables(catalogue(1e6, 3e6), cluster())
    np.testing.assert_allclose(3 * tables.server_s[0], tables.server_s[1])


def test_negative_constant_is_named():
    with pytest.raises(PhysicsError, match=r"network.contention is -1"):
        ring(contention=-1)


def test_no_network_costs_nothing_and_has_the_same_shapes():
    ours, none = (m.tables(catalogue(1e9), cluster()) for m in (ring(), NoNetwork()))
    for field in ("local_s", "server_s", "rack_s"):
        assert getattr(none, field).shape == getattr(ours, field).shape
        assert not getattr(none, field).any()
    assert set(none.nic_factor) == set(none.uplink_factor) == {1.0}
