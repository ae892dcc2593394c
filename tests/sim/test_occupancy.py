"""What a job is offered where servers are away, types, cores and memory matter, or parts do."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.jobs import ANY_TYPE, Demands
from sim.topology.outages import Change
from sim.view import ClusterView, Signal
from tests.sim import scripted
from tests.sim.worlds import Job, changes, cluster, physics_of, world

X, Y = 0b01, 0b10
# gpu_milli, cpu_milli, memory_mib, type_mask of jobs 0 to 6.
ASKS = [(1000, 0, 0, ANY_TYPE), (1000, 3000, 0, ANY_TYPE), (1000, 0, 45, ANY_TYPE),
        (1000, 0, 0, Y), (400, 0, 0, ANY_TYPE), (250, 0, 0, ANY_TYPE), (700, 9, 0, X)]  # fmt: skip


def looked(look: Callable[[ClusterView], Any], **rules: Any) -> Any:
    """What `look` returns on seeing servers 0 and 1 (type x) and 2 (y) of 3 GPUs; 1 is away.

    Each server has 7 cores and 100 MiB.
    """
    topology = dataclasses.replace(
        cluster(3, 3, types=("x", "x", "y")), server_gpu_type=np.array([0, 0, 1]),
        server_cpu_milli=np.full(3, 7000), server_memory_mib=np.full(3, 100),
    )  # fmt: skip
    physics = physics_of(topology, slowdown=((1.5,),), compute_s=(1.0, 1.0))
    traits = {"demands": Demands(*(np.array(column) for column in zip(*ASKS, strict=True)))}
    yard = world([Job(0, 1, 5)] * len(ASKS), topology, physics=physics, traits=traits,
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

    return looked(look, **rules)


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


def test_single_workers_are_offered_the_tightest_fit():
    def look(view: ClusterView) -> list[object]:
        scratch = Occupancy(view)
        for job, gpu in ((6, 1), (4, 6), (4, 7)):
            scratch.occupy(job, np.array([gpu]))
        tight = [scratch.tightest(view, job) for job in (5, 4, 0)]
        return [None if each is None else np.flatnonzero(each.usable).tolist() for each in tight]

    # 250 fits beside 700 with 50 to spare, beside 400 with 350. 400 fits beside each 400.
    assert looked(look) == [[1], [6, 7], None]


def test_what_a_tight_fit_leaves_over_is_no_slow_down():
    def look(view: ClusterView) -> list[object]:
        scratch = Occupancy(view)
        scratch.occupy(6, np.array([1]))
        tight = scratch.tightest(view, 5)
        return [] if tight is None else [tight.cost.tolist()]

    assert looked(look) == [[1.0] * 9]


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

    assert looked(look) == [[0, 1, 6, 7], [6, 7], [0, 1, 6, 7], [0, 1, 6, 7]]


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

    cost, offered = looked(look)
    assert cost == pytest.approx(1.2 * 1.5) and offered == [True, False]
