"""Shared links in whole runs: finish times by hand, and what must hold of any run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import WAIT, Decision, Start
from sim.errors import PhysicsError, SimulationError
from sim.jobs import JobTable
from sim.physics.link_loads import NOBODY, make_link_loads
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN, LinkNetwork
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.physics.reference import compact_gpus
from sim.physics.shared_links import link_tables
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal
from tests.oracle.cases import Case, cases
from tests.oracle.random_decider import RandomDecider
from tests.physics.network_worlds import GB, catalogue_of, network_of, racks, traffic_of
from tests.sim.worlds import Job, job_table, rules_of

ROWS = (
    {"grad_bytes": 3.0 * GB},
    {"pattern": 1, "grad_bytes": 1.0 * GB, "ps_count": 2},
    {"pattern": 2, "grad_bytes": 2.0 * GB, "tensor_width": 2, "stages": 2,
     "activation_bytes": 0.5 * GB, "tensor_bytes": 0.7 * GB},
)  # fmt: skip


class Scripted:
    """Starts each job on the GPUs written down for it, as soon as it waits."""

    name = "scripted"
    needs = Signal.NONE

    def __init__(self, gpus: list[list[int]]) -> None:
        self._gpus = gpus

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def decide(self, view: ClusterView) -> Decision:
        starts = [Start(job, np.array(self._gpus[job])) for job in view.queued.tolist()]
        return Decision(starts=tuple(starts)) if starts else WAIT


def physics_of(topology: Topology, network: LinkNetwork) -> Physics:
    catalogue = catalogue_of(len(network.profile))
    count = len(catalogue.names)
    return Physics(
        catalogue=catalogue,
        pairs=PairTable(np.ones((1, count, count)), np.ones((1, count, count), np.bool_), "none"),
        network=link_tables(network, catalogue, topology),
        reference_gpu="p100",
        links=network,
    )


def simulator_of(topology: Topology, physics: Physics, jobs: JobTable) -> Simulator:
    return Simulator(
        jobs=jobs, topology=topology, physics=physics, belief=physics,
        partition_of_server=np.zeros(topology.num_servers, dtype=np.int64),
        rules=rules_of(max_tenants=2), outages=NO_OUTAGES,
    )  # fmt: skip


def play(topology: Topology, network: LinkNetwork, jobs: list[Job], gpus: list[list[int]]) -> Run:
    simulator = simulator_of(topology, physics_of(topology, network), job_table(jobs))
    return simulate(simulator, Scripted(gpus), 0, None)


def test_two_rings_that_meet_on_a_nic():
    """Compute 1 s, rings of 10 Gbit over 10 Gbps: a step of 2 s alone, 3 s where two share a NIC.

    A: servers 0 and 1, 20 s of work from 0 on. B: servers 1 and 2, 8 s of work from 6 on.
    From 6 on both run at 2 / 3: B needs 12 s and ends at 18, when A has done 6 + 8 = 14 s of work.
    The other 6 s take 6 s: A ends at 24.
    """
    topology = racks(servers=3, per_rack=3, gpus=1, oversubscription=1.0)
    network = network_of(topology, traffic_of({"grad_bytes": 10.0 * GB}))
    run = play(topology, network, [Job(0.0, 2, 20.0), Job(6.0, 2, 8.0)], [[0, 1], [1, 2]])
    assert run.finish_s == pytest.approx([24.0, 18.0], rel=1e-12)
    # A communicates 1 s of 2 for 12 s, 2 s of 3 for another 12; B 2 s of 3 throughout.
    assert run.comm_s == pytest.approx([6.0 + 8.0, 8.0], rel=1e-12)


def test_k_way_and_duty_on_the_same_nic():
    """The same two, at once. K-way with eta 0.3: step 1 + 2.3 s. Duty: each busy half: 1 + 1.5."""
    topology = racks(servers=3, per_rack=3, gpus=1, oversubscription=1.0)
    for sharing, step_s in ((K_WAY, 3.3), (DUTY, 2.5)):
        network = network_of(topology, traffic_of({"grad_bytes": 10.0 * GB}), sharing=sharing,
                             eta_frac=0.3)  # fmt: skip
        run = play(topology, network, [Job(0.0, 2, 2.0), Job(0.0, 2, 2.0)], [[0, 1], [1, 2]])
        assert run.finish_s == pytest.approx([step_s] * 2, rel=1e-12)


def test_neighbours_inside_a_server_do_not_share_its_nic():
    topology = racks(servers=2, per_rack=2, gpus=4)
    network = network_of(topology, traffic_of({"grad_bytes": 10.0 * GB}))
    apart = [Job(0.0, 2, 5.0), Job(0.0, 2, 5.0)]
    assert play(topology, network, apart, [[0, 4], [1, 2]]).finish_s[1] == 5.0


@given(
    sharing=st.sampled_from([MAX_MIN, K_WAY, DUTY]),
    gang=st.integers(1, 16),
    profile=st.integers(0, 2),
    overlap=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=40, deadline=None)
def test_alone_and_most_compact_the_speed_is_exactly_one(sharing, gang, profile, overlap):
    topology = racks(servers=4, per_rack=2, gpus=4, oversubscription=3.0)
    network = network_of(topology, traffic_of(*ROWS), sharing=sharing, overlap_frac=overlap,
                         eta_frac=0.3, alpha_local_s=1e-5, alpha_server_s=5e-5)  # fmt: skip
    gpus = compact_gpus(topology, gang).tolist()
    run = play(topology, network, [Job(3.0, gang, 7.1, profile=profile)], [gpus])
    assert run.finish_s.tolist() == [3.0 + 7.1]


linked = cases(most_partitions=2, life=True, physics=True).filter(
    lambda case: case.physics.links is not None
)


@given(case=linked, seed=st.integers(0, 9))
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
    physics = physics_of(topology, network_of(topology, traffic_of({})))
    with pytest.raises(PhysicsError, match="4 servers, the topology c 6"):
        simulator_of(racks(servers=6), physics, job_table([Job(0.0, 1, 1.0)]))
    with pytest.raises(PhysicsError, match="2 profiles, catalogue of 1"):
        replace(physics, links=network_of(topology, traffic_of({}, {})))
