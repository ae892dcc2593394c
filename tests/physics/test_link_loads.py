"""Shared links: the incremental network, the one from scratch and the twin agree; whole runs."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.errors import PhysicsError, SimulationError
from sim.physics.job_load import exposed_seconds, local_seconds, measure_placement
from sim.physics.link_loads import NOBODY, LinkLoads, enter, leave, make_link_loads
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN, LinkNetwork, graph_of
from sim.physics.physics import Physics
from sim.physics.reference import compact_gpus
from sim.physics.refill import resettle
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, Traffic
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.generators import bcube, fat_tree, leaf_spine_links, vl2
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from sim.view import ClusterView
from tests.oracle.cases import Case, cases
from tests.oracle.random_decider import RandomDecider
from tests.physics.network_twin import NetworkTwin, TwinJob
from tests.physics.network_worlds import GB, linked, network_of, racks, traffic_of
from tests.sim import worlds
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job

SERVER = {"gpus_per_server": [2, 3], "gpu_types": ["p100"], "intra_gbps": 100.0}
INSIDE = {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 2, "nvlink_gbps": 300.0,
          "pcie_gbps": 90.0, "socket_gbps": 40.0}  # fmt: skip
TOPOLOGIES = {
    "leaf-spine": lambda: racks(servers=6, per_rack=2, oversubscription=3.0),
    "inside": lambda: racks(servers=4, per_rack=4, gpus=8, inside=INSIDE),
    "fat-tree": lambda: fat_tree(name="f", k=4, servers=9, nic_gbps=10.0, fabric_gbps=8.0,
                                 **SERVER),
    "vl2": lambda: vl2(name="v", aggregation_ports=4, intermediate_ports=2, servers_per_rack=3,
                       nic_gbps=10.0, fabric_gbps=13.0, **SERVER),
    "bcube": lambda: bcube(name="b", n=3, k=1, port_gbps=10.0, **SERVER),
}  # fmt: skip
ROWS = (
    {"pattern": RING, "grad_bytes": 0.3 * GB},
    {"pattern": RING, "grad_bytes": 0.0},
    {"pattern": PARAMETER_SERVER, "grad_bytes": 0.1 * GB, "ps_count": 2},
    {"pattern": MIX, "grad_bytes": 0.2 * GB, "tensor_width": 2, "stages": 2,
     "activation_bytes": 0.05 * GB, "tensor_bytes": 0.07 * GB},
    {"pattern": MIX, "grad_bytes": 0.0, "stages": 4, "activation_bytes": 1.0},
)  # fmt: skip


@dataclass
class Cluster:
    """What a kernel would keep: placements of running jobs beside the loads."""

    topology: Topology
    network: LinkNetwork
    loads: LinkLoads
    running: dict[int, TwinJob]

    def start(self, job: int, profile: int, gpus: list[int], compute_s: float = 0.4) -> None:
        self.running[job] = TwinJob(profile, tuple(gpus), compute_s)
        count, local_s = self.measure(job)
        if count > 1:
            enter(self.loads, self.network, job, profile, count, self.elsewhere_s(job, local_s))

    def measure(self, job: int) -> tuple[int, float]:
        """Number of servers and seconds inside them."""
        run, gang = self.running[job], self.loads.load.gang
        count = measure_placement(np.array(run.gpus), self.topology.gpu_server, gang)
        return count, float(local_seconds(self.network, run.profile, count, gang))

    def elsewhere_s(self, job: int, local_s: float) -> float:
        return self.running[job].compute_s + float(exposed_seconds(self.network, local_s, 0.0))

    def stop(self, job: int) -> None:
        del self.running[job]
        leave(self.loads, self.network, job)

    def settle(self) -> list[int]:
        return self.loads.part.job["job"][: resettle(self.loads, self.network)].tolist()

    def spanning(self) -> list[int]:
        server = self.topology.gpu_server
        return sorted(j for j, run in self.running.items() if len({*server[list(run.gpus)]}) > 1)

    def comm_s(self, job: int) -> float:
        _, local_s = self.measure(job)
        return float(exposed_seconds(self.network, local_s, self.loads.job["spread_s"][job]))


def cluster_of(topology: Topology, traffic: Traffic, sharing: int, jobs: int = 30) -> Cluster:
    network = network_of(topology, traffic, sharing=sharing, overlap_frac=0.25, eta_frac=0.3,
                         alpha_local_s=1e-5, alpha_server_s=5e-5)  # fmt: skip
    loads = make_link_loads(
        network=network, jobs=jobs, worker_slots=2 * topology.num_gpus, largest_gang=12
    )
    return Cluster(topology, network, loads, {})


def twin_of(cluster: Cluster) -> NetworkTwin:
    graph, gpu_server = graph_of(cluster.topology), cluster.topology.gpu_server.tolist()
    return NetworkTwin(cluster.network, gpu_server, lambda a, b: graph.path(a, b).tolist())


def check(cluster: Cluster, before: dict[int, float], changed: list[int]) -> dict[int, float]:
    now = {job: float(cluster.loads.job["spread_s"][job]) for job in cluster.spanning()}
    jobs = sorted(cluster.running)
    expected = twin_of(cluster).comm_seconds([cluster.running[job] for job in jobs])
    assert [cluster.comm_s(job) for job in jobs] == expected
    moved = {job for job in now if job in before and now[job] != before[job]}
    assert moved <= set(changed)
    assert changed == sorted(changed)
    return now


def change(cluster: Cluster, rng: np.random.Generator, rows: int, gangs: tuple[int, int]) -> None:
    """A job comes or one goes."""
    gpus, gang = cluster.topology.num_gpus, int(rng.integers(*gangs))
    idle = [job for job in range(30) if job not in cluster.running]
    held = sum(len(run.gpus) for run in cluster.running.values())
    comes = not cluster.running or rng.random() < 0.62
    if idle and comes and held + gang <= 2 * gpus:
        placed = rng.choice(gpus, gang, replace=False)
        placed = np.sort(placed) if rng.random() < 0.5 else placed
        profile, compute_s = int(rng.integers(rows)), float(rng.uniform(0.0, 0.2))
        cluster.start(int(rng.choice(idle)), profile, placed.tolist(), compute_s)
    elif cluster.running:
        cluster.stop(int(rng.choice(sorted(cluster.running))))


@given(st.sampled_from(sorted(TOPOLOGIES)), st.sampled_from([MAX_MIN, K_WAY, DUTY]),
       st.integers(0, 2**32 - 1), st.integers(1, 20))  # fmt: skip
@settings(max_examples=60)
def test_coming_and_going_equals_measuring_anew(kind, sharing, seed, changes):
    rng = np.random.default_rng(seed)
    cluster = cluster_of(TOPOLOGIES[kind](), traffic_of(*ROWS), sharing)
    known: dict[int, float] = {}
    for _ in range(changes):
        before = dict(cluster.running)
        for _ in range(rng.integers(1, 4)):  # several changes at one instant
            change(cluster, rng, len(ROWS), (1, min(13, cluster.topology.num_gpus + 1)))
        stayed = {job for job, run in before.items() if cluster.running.get(job) is run}
        known = {job: value for job, value in known.items() if job in stayed}
        known = check(cluster, known, cluster.settle())


@given(st.sampled_from(sorted(TOPOLOGIES)), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_a_busy_cluster_equals_filling_it_anew(kind, equal, seed):
    """Many jobs, long histories; equal jobs make many links fill at one rate."""
    rng = np.random.default_rng(seed)
    rows = ROWS[:1] if equal else ROWS
    cluster = cluster_of(TOPOLOGIES[kind](), traffic_of(*rows), MAX_MIN)
    for _ in range(60):
        for _ in range(rng.integers(1, 4)):
            change(cluster, rng, len(rows), (2, 7))
        check(cluster, {}, cluster.settle())
    assert not cluster.loads.part.link["rising"].any(), "scratch is not left clean"
    assert not cluster.loads.link["is_active"].any()
    assert not cluster.loads.job["phase"].any()


def test_a_change_reaches_far_along_a_chain():
    """A - B - C - D meet on servers 1, 2, 3; NICs of 10, 12, 40, 100 and 100 Gbps.

    Alone A, B, C, D get 10, 12, 40, 100; together A and B share 12, which leaves C 34 of 40, and
    D 66. Without A, B has 12, C 28, D 72; so all but A move, the far ones too.
    """
    nic = np.array([10.0, 12.0, 40.0, 100.0, 100.0])
    whole = racks(servers=5, per_rack=5, gpus=4)
    topology = replace(whole, links=leaf_spine_links(whole.server_rack, nic, whole.uplink_gbps, 1))
    cluster = cluster_of(topology, traffic_of({"grad_bytes": 10.0 * GB}), MAX_MIN)
    for job in range(4):
        cluster.start(job, 0, [4 * job + 1, 4 * job + 4])
    assert cluster.settle() == [0, 1, 2, 3]
    seconds = cluster.loads.job["spread_s"][:4] - 1e-4
    assert seconds == pytest.approx([10 / 6, 10 / 6, 10 / 34, 10 / 66])
    cluster.stop(0)
    assert cluster.settle() == [1, 2, 3]
    seconds = cluster.loads.job["spread_s"][1:4] - 1e-4
    assert seconds == pytest.approx([10 / 12, 10 / 28, 10 / 72])


def test_the_pool_is_won_back():
    """Far more jobs pass than the pool has room for; what stays is not disturbed."""
    topology = racks(servers=4, per_rack=2)
    cluster = cluster_of(topology, traffic_of(*ROWS), MAX_MIN)
    cluster.start(0, 0, [0, 4, 8, 12])
    cluster.start(5, 3, [1, 2, 9, 13])
    room, high = len(cluster.loads.entry), 0
    for turn in range(room):
        job = 1 + turn % 3
        if job in cluster.running:
            cluster.stop(job)
        cluster.start(job, 0, [2, 6, 10, 14])
        cluster.settle()
        high = max(high, int(cluster.loads.counts["pool_used"][0]))
    assert high <= room
    assert high > room // 2, "the pool never filled up: nothing was tested"
    check(cluster, {}, [])


def test_a_job_that_seldom_sends_disturbs_little():
    """Rings of 10 Gbit on 10 Gbps, 1 s alone, that meet on server 1; no latency, no overlap.

    j0 computes 3 s a step, so it keeps its links busy a quarter of the time; j1 computes 1 s: half.
    j0 then needs 1.5 s for its ring, j1 1.25 s. Max-min would give either half the link: 2 s.
    """
    topology = racks(servers=3, per_rack=3)
    network = network_of(topology, traffic_of({"grad_bytes": 10.0 * GB}), sharing=DUTY)
    loads = make_link_loads(network=network, jobs=2, worker_slots=12, largest_gang=2)
    cluster = Cluster(topology, network, loads, {})
    cluster.start(0, 0, [0, 4], compute_s=3.0)
    cluster.start(1, 0, [5, 8], compute_s=1.0)
    cluster.settle()
    assert cluster.loads.job["spread_s"].tolist() == [1.5, 1.25]
    cluster.stop(1)
    assert cluster.settle() == [0]
    assert cluster.loads.job["spread_s"][0] == 1.0


def test_a_far_job_is_left_alone():
    """Only the jobs on the links themselves are looked at, where no rate beyond them changes."""
    topology = racks(servers=6, per_rack=6)
    for sharing, chain in ((MAX_MIN, [1, 2]), (K_WAY, [1, 2]), (DUTY, [1, 2])):
        cluster = cluster_of(topology, traffic_of({"grad_bytes": GB}), sharing)
        cluster.start(0, 0, [0, 1, 4])  # s0 - s1
        cluster.start(1, 0, [5, 8])  # s1 - s2
        cluster.start(3, 0, [16, 20])  # s4 - s5, alone
        cluster.settle()
        cluster.loads.job["spread_s"][[0, 1, 3]] = -1.0  # a real value again where looked at
        cluster.start(2, 0, [9, 12])  # s2 - s3
        cluster.settle()
        looked_at = [job for job in range(4) if cluster.loads.job["spread_s"][job] > 0]
        assert looked_at == chain


RUN_ROWS = (
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
    physics = linked(topology, *RUN_ROWS, sharing=sharing, overlap_frac=overlap, eta_frac=0.3,
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
