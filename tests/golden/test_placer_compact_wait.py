"""Compact wait: the cheapest predicted placement that is not spread too far."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sim.engine.composed import PartitionedScheduler
from sim.errors import GpuYardError
from sim.forwarding import OwnOnly
from sim.placers.by_job import CompactWait
from sim.placers.by_room import Consolidated, LeastInterference, Packed
from sim.protocols import PatientPlacer
from sim.run import Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.simulator import Simulator
from sim.topology.outages import NO_OUTAGES
from tests.sim.placed import Held, answer, comm_physics
from tests.sim.worlds import Job, cluster, gantt, job_table, physics_of, play, rules_of, world

# A and B hold server 0 to 10 and 6, C and D server 1 to 20 and 2. E wants two GPUs from 2 on.
SPLIT = [Job(0, 1, 10), Job(0, 1, 6), Job(0, 1, 20), Job(0, 1, 2), Job(2, 2, 4)]


def run_with(placer, across_s: float) -> Run:
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, across_s))
    scheduler = Fifo(placer=placer, sharing=NoSharing(), skip_blocked=True)
    return play(world(SPLIT, topology, physics=physics), scheduler)


def test_it_waits_where_spreading_costs_more_than_it_may():
    #                  0     6   10  14      GPUs 1 and 3 are free from 6 on: a step there takes
    # server 0  GPU 0  AAAAAAAAAAEEEE        1.5 s, on one server 1 s
    #           GPU 1  BBBBBB....EEEE
    # server 1  GPU 2  CCCCCCCCCCCCCCCCCCCC
    #           GPU 3  DD
    assert gantt(run_with(CompactWait(most_slowdown=1.3), 0.5))["E"] == (10, 14, (0, 1))
    assert gantt(run_with(Consolidated(), 0.5))["E"] == (10, 14, (0, 1))


def test_it_does_not_wait_where_spreading_is_cheap():
    # 1.25 s a step: E starts at 6 on both servers and takes 4 x 1.25 s. Consolidated waits.
    assert gantt(run_with(CompactWait(most_slowdown=1.3), 0.25))["E"] == (6, 11, (1, 3))
    assert gantt(run_with(CompactWait(most_slowdown=1.2), 0.25))["E"] == (10, 14, (0, 1))
    assert gantt(run_with(Packed(), 0.5))["E"] == (6, 12, (1, 3))


def test_of_one_gang_some_wait_and_some_do_not():
    # Both come at 2. E talks a lot and waits; F, which hardly does, passes it at 6.
    topology = cluster(2, 2)
    physics = comm_physics(topology, (1.0, 1.0), server_s=(0.0, 0.0, 1.0))
    physics.network.server_s[1] *= 0.1
    trace = [*SPLIT, Job(2, 2, 4, profile=1)]
    scheduler = Fifo(placer=CompactWait(most_slowdown=1.3), sharing=NoSharing(), skip_blocked=True)
    assert isinstance(scheduler.placer, PatientPlacer)
    run = play(world(trace, topology, physics=physics), scheduler)
    assert gantt(run)["F"] == (6, pytest.approx(10.4), (1, 3))
    assert gantt(run)["E"][0] == pytest.approx(10.4)


def test_a_server_that_is_shared_badly_is_left_for_one_that_is_not():
    # Server 0 is held by a neighbour that costs 2; servers 1 and 2 have one empty GPU each.
    topology = cluster(3, 2)
    held = [Held((0,)), Held((1,)), Held((2,)), Held((4,))]
    for across_s, gpus in ((0.2, (3, 5)), (9.0, (0, 1))):
        physics = physics_of(topology, slowdown=((2.0,),), server_s=(0.0, 0.0, across_s, across_s))
        more = {"physics": physics, "shared": True}
        assert answer(CompactWait(most_slowdown=1.3), 2, topology, held, **more) == gpus
        assert answer(LeastInterference(), 2, topology, held, **more) == (3, 5)


def test_company_on_nics_counts():
    # Two servers cost 1.2 alone, 1.4 beside a job that spans them: then it waits.
    topology = cluster(4, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, 0.2, 0.2, 0.2), nic_factor=(1.0, 1.0, 2.0))
    alone = [Held((0,)), Held((2,)), Held((4, 5)), Held((6, 7))]
    beside = [Held((0, 2)), Held((4, 5)), Held((6, 7))]
    placer = CompactWait(most_slowdown=1.3)
    assert answer(placer, 2, topology, alone, physics=physics) == (1, 3)
    assert answer(placer, 2, topology, beside, physics=physics) is None


def test_one_rack_before_two():
    # Three workers, servers of two, two a rack. A second rack costs as much as the step itself.
    topology = cluster(4, 2, servers_per_rack=2)
    spread = {"server_s": (0.0, 0.0, 0.1, 0.1, 0.1)}
    cheap = comm_physics(topology, (1.0,), **spread)
    dear = comm_physics(topology, (1.0,), **spread, rack_s=(0.0, 0.0, 1.0))
    placer = CompactWait(most_slowdown=1.3)
    assert answer(placer, 3, topology, [Held((0, 1, 2)), Held((4,))], physics=dear) == (5, 6, 7)
    held = [Held((0, 1, 4, 5))]  # a server in each rack is left
    assert answer(placer, 3, topology, held, physics=dear) is None
    assert answer(placer, 3, topology, held, physics=cheap) == (2, 3, 6)


def test_nobody_waits_for_another_gpu_type():
    # Type y is three times slower; the fast server is held. A compact place on y will do.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 3.0))
    placer = CompactWait(most_slowdown=1.3)
    assert answer(placer, 2, topology, physics=physics) == (0, 1)
    assert answer(placer, 2, topology, [Held((0,))], physics=physics) == (2, 3)


def test_a_gang_that_fits_no_server_is_measured_by_what_it_can_get():
    # Spread over both servers it is 51 times slower than on one; but there is no such server.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, 50.0))
    run = play(
        world([Job(0, 4, 10)], topology, physics=physics),
        Fifo(placer=CompactWait(most_slowdown=1.0), sharing=NoSharing(), skip_blocked=True),
    )
    assert gantt(run)["A"] == (0, 10, (0, 1, 2, 3))


def test_where_all_is_free_there_is_nothing_to_wait_for():
    # Partitions of servers 0, 2 and 1, 3, one of each in either rack: A's ring loads both uplinks,
    # on which B will be eight times slower. B has its servers to itself, so it starts.
    topology = cluster(4, 2, servers_per_rack=2)
    physics = comm_physics(topology, (1.0,), rack_s=(0.0, 0.0, 1.0))
    network = replace(physics.network, uplink_factor=np.array([1.0, 1.0, 15.0]))
    yard = Simulator(
        jobs=job_table([Job(0, 4, 10, home=0), Job(1, 4, 10, home=1)]),
        topology=topology,
        physics=replace(physics, network=network),
        belief=replace(physics, network=network),
        partition_of_server=np.array([0, 1, 0, 1]),
        rules=rules_of(),
        outages=NO_OUTAGES,
    )
    fifo = Fifo(placer=CompactWait(most_slowdown=1.3), sharing=NoSharing(), skip_blocked=True)
    run = play(yard, PartitionedScheduler(child=fifo, forwarding=OwnOnly()))
    assert gantt(run)["B"][0] == 1


@pytest.mark.parametrize("limit", [0.9, math.nan, math.inf, -1])
def test_a_wrong_limit_is_refused(limit):
    with pytest.raises(GpuYardError, match=r"placer.most_slowdown is .*1 or more"):
        CompactWait(most_slowdown=limit)
