"""Shared links in whole runs: finish times by hand, and what must hold of any run."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.errors import PhysicsError, SimulationError
from sim.physics.link_loads import NOBODY, make_link_loads
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN
from sim.physics.physics import Physics
from sim.physics.reference import compact_gpus
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from sim.view import ClusterView
from tests.oracle.cases import Case, cases
from tests.oracle.random_decider import RandomDecider
from tests.physics.network_worlds import GB, linked, network_of, racks, traffic_of
from tests.sim import worlds
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job

ROWS = (
    {"grad_bytes": 3.0 * GB},
    {"pattern": 1, "grad_bytes": 1.0 * GB, "ps_count": 2},
    {"pattern": 2, "grad_bytes": 2.0 * GB, "tensor_width": 2, "stages": 2,
     "activation_bytes": 0.5 * GB, "tensor_bytes": 0.7 * GB},
)  # fmt: skip


def start_all(gpus: list[list[int]], view: ClusterView) -> Decision:
    """Each job that waits on the GPUs written down for it."""
    starts = (Start(job, np.array(gpus[job])) for job in view.queued.tolist())
    return Decision(starts=tuple(starts))


def play(topology: Topology, physics: Physics, jobs: list[Job], gpus: list[list[int]]) -> Run:
    world = worlds.world(jobs, topology, physics=physics, max_tenants=2)
    return worlds.play(world, Scripted(*[partial(start_all, gpus)] * 9))


def test_two_rings_that_meet_on_a_nic():
    """Compute 1 s, rings of 10 Gbit over 10 Gbps: a step of 2 s alone, 3 s where two share a NIC.

    A: servers 0 and 1, 20 s of work from 0 on. B: servers 1 and 2, 8 s of work from 6 on.
    From 6 on both run at 2 / 3: B needs 12 s and ends at 18, when A has done 6 + 8 = 14 s of work.
    The other 6 s take 6 s: A ends at 24.
    """
    topology = racks(servers=3, per_rack=3, gpus=1, oversubscription=1.0)
    physics = linked(topology, {"grad_bytes": 10.0 * GB})
    run = play(topology, physics, [Job(0.0, 2, 20.0), Job(6.0, 2, 8.0)], [[0, 1], [1, 2]])
    assert run.finish_s == pytest.approx([24.0, 18.0], rel=1e-12)
    # A communicates 1 s of 2 for 12 s, 2 s of 3 for another 12; B 2 s of 3 throughout.
    assert run.comm_s == pytest.approx([6.0 + 8.0, 8.0], rel=1e-12)


def test_k_way_and_duty_on_the_same_nic():
    """The same two, at once. K-way with eta 0.3: step 1 + 2.3 s. Duty: each busy half: 1 + 1.5."""
    topology = racks(servers=3, per_rack=3, gpus=1, oversubscription=1.0)
    for sharing, step_s in ((K_WAY, 3.3), (DUTY, 2.5)):
        physics = linked(topology, {"grad_bytes": 10.0 * GB}, sharing=sharing, eta_frac=0.3)
        run = play(topology, physics, [Job(0.0, 2, 2.0), Job(0.0, 2, 2.0)], [[0, 1], [1, 2]])
        assert run.finish_s == pytest.approx([step_s] * 2, rel=1e-12)


def test_neighbours_inside_a_server_do_not_share_its_nic():
    topology = racks(servers=2, per_rack=2, gpus=4)
    physics = linked(topology, {"grad_bytes": 10.0 * GB})
    apart = [Job(0.0, 2, 5.0), Job(0.0, 2, 5.0)]
    assert play(topology, physics, apart, [[0, 4], [1, 2]]).finish_s[1] == 5.0


@given(sharing=st.sampled_from([MAX_MIN, K_WAY, DUTY]), gang=st.integers(1, 16),
       profile=st.integers(0, 2), overlap=st.sampled_from([0.0, 0.3]))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_alone_and_most_compact_the_speed_is_exactly_one(sharing, gang, profile, overlap):
    topology = racks(servers=4, per_rack=2, gpus=4, oversubscription=3.0)
    physics = linked(topology, *ROWS, sharing=sharing, overlap_frac=overlap, eta_frac=0.3,
                     alpha_local_s=1e-5, alpha_server_s=5e-5)  # fmt: skip
    gpus = compact_gpus(topology, gang).tolist()
    run = play(topology, physics, [Job(3.0, gang, 7.1, profile=profile)], [gpus])
    assert run.finish_s.tolist() == [3.0 + 7.1]


with_links = cases(most_partitions=2, life=True, physics=True).filter(
    lambda case: case.physics.links is not None
)


@given(case=with_links, seed=st.integers(0, 9))
@settings(max_examples=40)
def test_nobody_is_left_on_a_link(case: Case, seed: int) -> None:
    case = replace(case, outages=NO_OUTAGES)
    simulator = Simulator(**case.arguments())
    try:
        simulate(simulator, RandomDecider(whims=60), seed, None)
    except SimulationError:
        return  # stuck: a job whose demands no server meets
    link = simulator.state.loads.link
    assert not link["sharers"].any()
    assert not link["busy"].any()
    assert (link["head"] == NOBODY).all()
    assert not simulator.state.loads.job["spans"].any()


def test_memory_grows_with_jobs_by_one_row_each():
    network = network_of(racks(), traffic_of({}))

    def sizes(jobs: int) -> int:
        loads = make_link_loads(network=network, jobs=jobs, worker_slots=32, largest_gang=16)
        own = [each for each in loads.members().values() if isinstance(each, np.ndarray)]
        arrays = [*own, *loads.part.members().values(), *loads.load.members().values()]
        assert len(arrays) == 13
        return sum(each.nbytes for each in arrays)

    row = sizes(1000) - sizes(999)
    assert sizes(1_000_000) == sizes(1000) + 999_000 * row
    assert row < 100


def test_links_of_another_cluster_are_refused():
    topology = racks(servers=4)
    physics = linked(topology, {})
    with pytest.raises(PhysicsError, match="4 servers, the topology c 6"):
        worlds.world([Job(0.0, 1, 1.0)], racks(servers=6), physics=physics)
    with pytest.raises(PhysicsError, match="2 profiles, catalogue of 1"):
        replace(physics, links=network_of(topology, traffic_of({}, {})))
