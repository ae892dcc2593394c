"""What schedulers are told of a link network, against the network itself."""

import numpy as np
import pytest

from sim.physics.link_network import DUTY, K_WAY, MAX_MIN
from sim.physics.reference import placement_seconds, reference_comm_s
from sim.physics.shared_links import MOST_SPANNED, told_tables
from sim.physics.traffic import PARAMETER_SERVER
from sim.topology.generators import leaf_spine
from tests.physics.network_worlds import GB, catalogue_of, network_of, racks, traffic_of


def test_rings_on_compact_placements_are_told_as_they_are():
    """Uplinks as wide as their NICs: nothing but the servers spanned counts."""
    topology = racks(servers=12, per_rack=4, oversubscription=1.0)
    network = network_of(topology, traffic_of({"grad_bytes": 3 * GB}), overlap_frac=0.25,
                         alpha_local_s=1e-5, alpha_server_s=5e-5)  # fmt: skip
    tables = told_tables(network, catalogue_of(1), topology)
    gangs = np.array([1, 2, 3, 4, 8, 12, 16, 32, 48])
    local, servers = np.minimum(gangs, 4), -(-gangs // 4)
    told_s = tables.local_s[0, local] + tables.server_s[0, servers]
    real_s = reference_comm_s(network, topology, np.zeros(len(gangs), np.int64), gangs)
    assert told_s == pytest.approx(real_s, rel=1e-12)
    assert tables.rack_s.tolist() == [[0.0] * 4]


def test_narrow_uplinks_add_to_crossing_racks():
    """Rings of 10 Gbit on NICs of 10 Gbps, uplinks of 4 x 10 / 8 = 5: 2 s in place of 1 s."""
    topology = racks(servers=8, per_rack=4, oversubscription=8.0)
    network = network_of(topology, traffic_of({"grad_bytes": 10 * GB}))
    tables = told_tables(network, catalogue_of(1), topology)
    assert tables.server_s[0, 2] == pytest.approx(1.0)
    assert tables.rack_s[0] == pytest.approx([0.0, 0.0, 1.0])
    across = placement_seconds(network, topology, 0, np.array([0, 16]))
    assert across[1] == pytest.approx(tables.server_s[0, 2] + tables.rack_s[0, 2])


def test_incast_of_a_parameter_server_is_told():
    """3 servers of 4: 8 workers push 5 Gbit each into one NIC of 10 Gbps."""
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": 5 * GB})
    topology = racks()
    tables = told_tables(network_of(topology, traffic), catalogue_of(1), topology)
    assert tables.server_s[0, 3] == pytest.approx(8 * 5 / 10)


def test_factors_follow_the_law():
    topology = racks(servers=4, per_rack=4, oversubscription=2.0)
    traffic = traffic_of({"grad_bytes": 10 * GB})

    def factors(sharing: int, eta_frac: float = 0.0) -> tuple[list[float], list[float]]:
        network = network_of(topology, traffic, sharing=sharing, eta_frac=eta_frac)
        tables = told_tables(network, catalogue_of(1), topology)
        return tables.nic_factor[:5].tolist(), tables.uplink_factor[:5].tolist()

    # The uplink has room for two NICs.
    assert factors(MAX_MIN) == ([1.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.5, 2.0])
    assert factors(K_WAY, 0.3)[0] == pytest.approx([1.0, 1.0, 2.3, 3.6, 4.9])
    # Compute 1 s, 1.5 x 10 / 100 s inside, 1 s between two servers: busy 1 / 2.15 of the time.
    busy = 1.0 / 2.15
    assert factors(DUTY)[0] == pytest.approx([1.0, 1.0, 1 + busy, 1 + 2 * busy, 1 + 3 * busy])


def test_tables_of_a_large_cluster_stay_small():
    topology = leaf_spine(
        name="c", servers=1000, gpus_per_server=8, servers_per_rack=4, gpu_types=["p100"],
        intra_gbps=100.0, nic_gbps=10.0, oversubscription=1.0,
    )  # fmt: skip
    tables = told_tables(network_of(topology, traffic_of({})), catalogue_of(1), topology)
    assert tables.server_s.shape == tables.rack_s.shape == (1, MOST_SPANNED + 1)
