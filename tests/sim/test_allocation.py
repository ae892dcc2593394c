"""A decision or a placement tried out shows what the state shows, and what the kernel charges."""

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.errors import GpuYardError, SimulationError
from sim.jobs import ANY_TYPE
from sim.kernel.allocation import Allocation, allocation_of
from sim.placers.placement_search import Law, Site, least_comm_s, predicted_comm_s
from sim.simulator import Simulator, simulate
from sim.topology.outages import Change
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal, Slots, state_of
from tests.oracle.cases import Case, cases
from tests.oracle.random_decider import RandomDecider
from tests.sim import scripted
from tests.sim.scripted import Scripted, looked
from tests.sim.worlds import Job, changes, cluster, demands, physics_of, play, world


def told(allocation: Allocation) -> list[list[object]]:
    """All that `Allocation` say of who holds what, but for versions."""
    free_gpus = [
        array.tolist() for name, array in allocation.free_gpus._asdict().items() if name != "cost"
    ]
    gpu, server = allocation.gpu, allocation.server
    columns = (gpu["tenants"], gpu["milli"], server["cpu_free_milli"], server["memory_free_mib"])
    return [*free_gpus, allocation.tenant.tolist(), *(column.tolist() for column in columns)]


def assert_shown(occupancy: Occupancy, view: ClusterView) -> None:
    assert told(occupancy._allocation) == told(allocation_of(state_of(view)).copied())


class Trying(RandomDecider):
    """Before it decides it moves half of the running jobs, in copies of copies."""

    def decide(self, view: ClusterView) -> Decision:
        first = Occupancy(view)
        assert_shown(first, view)
        moved = [job for job in view.running.tolist() if self._rng.random() < 0.5]
        first.vacate_all((job, view.gpus_of(job)) for job in moved)
        second = first.copy()
        for job in moved:
            gpus = view.gpus_of(job)
            if (second.exclusive(view, job).usable[gpus]).all():
                second.occupy(job, gpus)
                second.vacate(job, gpus)
        assert told(second._allocation) == told(first._allocation)
        third = second.copy()
        third.bar(np.arange(view.topology.num_gpus))
        assert not any(third.exclusive(view, job).usable.any() for job in view.queued.tolist())
        assert_shown(Occupancy(view), view)
        return super().decide(view)


@settings(max_examples=60)
@given(case=cases(most_partitions=3, most_jobs=15, life=True), seed=st.integers(0, 9))
def test_an_occupancy_is_the_state_whatever_was_tried_before(case: Case, seed: int) -> None:
    with contextlib.suppress(SimulationError):  # some jobs may wait for ever
        simulate(Simulator(**case.arguments()), Trying(whims=40), seed, None)


def tried(look) -> None:
    """Let `look` try things out where job 0 holds GPUs 0 and 1 of a server of 3."""
    yard = world([Job(0, 2, 9), Job(1, 1, 5)], cluster(1, 3))
    first = Decision(starts=(Start(0, np.array([0, 1])),))
    looked(yard, lambda view: look(Occupancy(view), view), first, needs=Signal.NONE)


@pytest.mark.parametrize("gpus", [[0], [2, 2], [3], [-1]])
def test_who_has_no_seat_is_told_so_and_nothing_changes(gpus: list[int]) -> None:
    def look(occupancy: Occupancy, view: ClusterView) -> None:
        with pytest.raises(GpuYardError, match=f"job row 1 cannot be booked on GPU {gpus[-1]}"):
            occupancy.occupy(1, np.array(gpus))
        assert_shown(occupancy, view)

    tried(look)


@pytest.mark.parametrize("gpus", [[0, 0], [2], [7]])
def test_nobody_leaves_a_gpu_that_he_does_not_hold(gpus: list[int]) -> None:
    def look(occupancy: Occupancy, view: ClusterView) -> None:
        with pytest.raises(GpuYardError, match=f"job row 0 cannot leave GPU {gpus[-1]}"):
            occupancy.vacate(0, np.array(gpus))
        with pytest.raises(GpuYardError, match="job row 0 cannot leave GPUs"):
            occupancy.vacate_all([(0, np.array(gpus))])
        assert_shown(occupancy, view)

    tried(look)


X, Y = 0b01, 0b10
# gpu_milli, cpu_milli, memory_mib, type_mask of jobs 0 to 6.
ASKS = [(1000, 0, 0, ANY_TYPE), (1000, 3000, 0, ANY_TYPE), (1000, 0, 45, ANY_TYPE),
        (1000, 0, 0, Y), (400, 0, 0, ANY_TYPE), (250, 0, 0, ANY_TYPE), (700, 9, 0, X)]  # fmt: skip


def seen(look: Callable[[ClusterView], Any], **rules: Any) -> Any:
    """What `look` returns on seeing servers 0 and 1 (type x) and 2 (y) of 3 GPUs; 1 is away.

    Each server has 7 cores and 100 MiB.
    """
    topology = dataclasses.replace(
        cluster(3, 3, types=("x", "x", "y")),
        server_gpu_type=np.array([0, 0, 1]),
        server_cpu_milli=np.full(3, 7000),
        server_memory_mib=np.full(3, 100),
    )
    physics = physics_of(topology, slowdown=((1.5,),), compute_s=(1.0, 1.0))
    yard = world([Job(0, 1, 5)] * len(ASKS), topology, physics=physics, traits=demands(*ASKS),
                 outages=changes((0.0, 1, Change.CLOSE)), **{"max_tenants": 3} | rules)  # fmt: skip
    return scripted.looked(yard, look, needs=Signal.PROFILE | Signal.INTERFERENCE)


def gpus_offered(job: int, *taken: tuple[int, list[int]], shared: bool = False, **rules: Any):
    """GPUs offered to `job`, and the most per server, after `taken` were booked."""

    def look(view: ClusterView) -> tuple[list[int], list[int], list[int]]:
        scratch = Occupancy(view)
        for other, gpus in taken:
            scratch.occupy(other, np.array(gpus))
        slots = scratch.shared(view, job, ANY_SPEED) if shared else scratch.exclusive(view, job)
        assert np.bincount(
            view.topology.gpu_server[slots.usable], minlength=3
        ).tolist() == slots.usable_per_server.tolist()  # fmt: skip
        return np.flatnonzero(slots.usable).tolist(), slots.most_per_server.tolist()

    return seen(look, **rules)


def test_servers_that_are_away_offer_nothing():
    assert gpus_offered(0) == ([0, 1, 2, 6, 7, 8], [3, 0, 3])
    assert gpus_offered(0, (0, [1, 6])) == ([0, 2, 7, 8], [3, 0, 3])


def test_cores_memory_and_types_limit_the_workers_of_a_server():
    assert gpus_offered(1) == ([0, 1, 6, 7], [2, 0, 2])  # 3 of 7 cores each
    assert gpus_offered(2) == ([0, 1, 6, 7], [2, 0, 2])  # 45 of 100 MiB each
    assert gpus_offered(3) == ([6, 7, 8], [0, 0, 3])
    # Job 1 on GPU 0 leaves 4 of server 0's cores: one more worker like it, on the lowest GPU.
    assert gpus_offered(1, (1, [0])) == ([1, 6, 7], [2, 0, 2])


def test_parts_join_parts_with_room_and_nobody_joins_whole_jobs():
    taken = (0, [0]), (6, [1]), (4, [6]), (4, [7])
    assert gpus_offered(5, *taken)[0] == [1, 2, 6, 7, 8]
    assert gpus_offered(4, *taken)[0] == [2, 6, 7, 8]  # 700 + 400 is too much for GPU 1
    assert gpus_offered(0, *taken)[0] == [2, 8]


def test_single_workers_are_offered_the_tightest_fit_and_what_it_leaves_over_is_no_slow_down():
    def look(view: ClusterView) -> list[Slots | None]:
        scratch = Occupancy(view)
        for job, gpu in ((6, 1), (4, 6), (4, 7)):
            scratch.occupy(job, np.array([gpu]))
        return [scratch.tightest(view, job) for job in (5, 4, 0)]

    # 250 fits beside 700 with 50 to spare, beside 400 with 350. 400 fits beside each 400.
    *found, nowhere = seen(look)
    assert [np.flatnonzero(each.usable).tolist() for each in found] == [[1], [6, 7]]
    assert nowhere is None and found[0].cost.tolist() == [1.0] * 9


def test_a_release_gives_everything_back():
    def look(view: ClusterView) -> list[object]:
        scratch = Occupancy(view)
        before = np.flatnonzero(scratch.exclusive(view, 1).usable).tolist()
        twin = scratch.copy()
        twin.occupy(6, np.array([0]))
        twin.occupy(1, np.array([1, 2]))
        full = np.flatnonzero(twin.exclusive(view, 1).usable).tolist()
        twin.vacate(1, np.array([1, 2]))
        twin.vacate(6, np.array([0]))
        after = np.flatnonzero(twin.exclusive(view, 1).usable).tolist()
        return [before, full, after, np.flatnonzero(scratch.exclusive(view, 1).usable).tolist()]

    assert seen(look) == [[0, 1, 6, 7], [6, 7], [0, 1, 6, 7], [0, 1, 6, 7]]


def test_sharing_keeps_to_the_thousandths_that_may_be_promised():
    taken = (0, [0]), (4, [6])
    assert gpus_offered(0, *taken, shared=True)[0] == [0, 1, 2, 6, 7, 8]
    assert gpus_offered(0, *taken, shared=True, gpu_oversubscription=1.5)[0] == [1, 2, 6, 7, 8]
    assert gpus_offered(4, *taken, shared=True, gpu_oversubscription=1.0)[0] == [1, 2, 6, 7, 8]


def test_a_part_costs_its_neighbours_that_part_of_the_slow_down():
    # Whole jobs slow each other to 1.5. Job 4 (400) on GPU 0: a whole newcomer is slowed to
    # 1 + 0.5 x 0.4 = 1.2 and slows job 4 to 1.5; together 1/1.2 + 1/1.5 = 1.5 jobs' speed.
    def look(view: ClusterView) -> list[object]:
        scratch = Occupancy(view)
        scratch.occupy(4, np.array([0]))
        cost = scratch.shared(view, 0, ANY_SPEED).cost[0]
        offered = [bool(scratch.shared(view, 0, least).usable[0]) for least in (1.49, 1.51)]
        return [cost, offered]

    cost, offered = seen(look)
    assert cost == pytest.approx(1.2 * 1.5) and offered == [True, False]


TOPOLOGY = cluster(4, 2, servers_per_rack=2)


def tables(rng: np.random.Generator, topology: Topology):
    """Physics with every column of the tables in use."""
    physics = physics_of(topology)
    network = replace(
        physics.network,
        local_s=rng.uniform(0, 1, (1, 3)),
        server_s=np.concatenate([np.zeros((1, 2)), rng.uniform(0, 1, (1, 2))], axis=1),
        rack_s=np.concatenate([np.zeros((1, 2)), rng.uniform(0, 1, (1, 1))], axis=1),
        nic_factor=np.array([1.0, 1.0, 1.7]),
        uplink_factor=np.array([1.0, 1.0, 2.3]),
    )
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
