"""What is predicted of a placement is what the kernel charges for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.placers.placement_search import Law, Site, least_comm_s, predicted_comm_s
from sim.topology.topology import Topology
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, cluster, physics_of, play, world

TOPOLOGY = cluster(4, 2, servers_per_rack=2)


def tables(rng: np.random.Generator, topology: Topology):
    """Physics with every column of the tables in use."""
    physics = physics_of(topology)
    network = replace(
        physics.network, local_s=rng.uniform(0, 1, (1, 3)),
        server_s=np.concatenate([np.zeros((1, 2)), rng.uniform(0, 1, (1, 2))], axis=1),
        rack_s=np.concatenate([np.zeros((1, 2)), rng.uniform(0, 1, (1, 1))], axis=1),
        nic_factor=np.array([1.0, 1.0, 1.7]), uplink_factor=np.array([1.0, 1.0, 2.3]),
    )  # fmt: skip
    return replace(physics, network=network)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 9999), mine=st.integers(1, 5), theirs=st.integers(1, 3))
def test_communication_is_that_of_the_kernel(seed: int, mine: int, theirs: int) -> None:
    rng = np.random.default_rng(seed)
    physics = tables(rng, TOPOLOGY)
    gpus = rng.permutation(TOPOLOGY.num_gpus)
    other, own = gpus[:theirs], gpus[theirs : theirs + mine]
    together = Decision(starts=(Start(0, other), Start(1, own)))
    yard = world([Job(0, theirs, 1000), Job(0, mine, 1)], TOPOLOGY, physics=physics)
    run = play(yard, Scripted(together))

    on_other = np.unique(TOPOLOGY.gpu_server[other])
    racks = np.unique(TOPOLOGY.server_rack[on_other])
    site = Site(
        compute_s=np.ones(4),
        rack=TOPOLOGY.server_rack,
        nic_jobs=np.bincount(on_other, minlength=4) * (len(on_other) > 1),
        uplink_jobs=np.bincount(racks, minlength=2) * (len(racks) > 1),
    )
    take = np.bincount(TOPOLOGY.gpu_server[own], minlength=4)
    comm_s = predicted_comm_s(np.arange(4), take, site, Law(physics.network, 0))
    assert run.comm_s[1] / run.run_s[1] == pytest.approx(comm_s / (1.0 + comm_s))


def test_the_least_is_that_of_an_empty_cluster():
    physics = tables(np.random.default_rng(1), TOPOLOGY)
    law, busy = Law(physics.network, 0), np.full(4, 3)
    site = Site(np.ones(4), TOPOLOGY.server_rack, busy, busy[:2])
    size = TOPOLOGY.gpus_per_server
    two, three = (least_comm_s(gang, np.arange(4), size, site, law) for gang in (2, 3))
    local_s, server_s = physics.network.local_s, physics.network.server_s
    assert two == local_s[0, 2]
    assert three == local_s[0, 2] + server_s[0, 2]  # two servers of one rack, nobody beside
