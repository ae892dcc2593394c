"""Load balancing: each worker to the least loaded server."""

from sim.placers.by_room import LeastLoaded, Packed
from sim.schedulers.orders import Fifo, LoadBalance
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

TRACE = [Job(0, 2, 10), Job(1, 1, 4), Job(2, 1, 6), Job(3, 2, 5), Job(4, 1, 2)]


def test_gangs_are_spread_and_blocked_jobs_skipped():
    #               0 1 2 3 5  6 7 8  10       15
    # server 0  0   AAAAAAAAAAAAAAAAAADDDDDD      worker by worker: A on both servers
    #           1     BBBBBBEE
    # server 1  2   AAAAAAAAAAAAAAAAAA
    #           3       CCCCCCCCCCCC              at 5 E passes D, which wants two
    # At 8 C ends: 1 (E until 7) and 3 are free, so D runs there from 8.
    run = play(
        world(TRACE, cluster(2, 2)),
        LoadBalance(placer=LeastLoaded(), sharing=NoSharing(), skip_blocked=True),
    )
    assert gantt(run) == {
        "A": (0, 10, (0, 2)),
        "B": (1, 5, (1,)),
        "C": (2, 8, (3,)),
        "E": (5, 7, (1,)),
        "D": (8, 13, (1, 3)),
    }


def test_spreading_costs_time_where_the_network_does_and_packed_fifo_differs():
    # A step takes 1 s, and 1 s more across servers: A at half speed where spread.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, 1.0))
    spread = play(
        world(TRACE[:1], topology, physics=physics),
        LoadBalance(placer=LeastLoaded(), sharing=NoSharing(), skip_blocked=True),
    )
    assert gantt(spread) == {"A": (0, 20, (0, 2))}
    packed = play(
        world(TRACE[:1], topology, physics=physics),
        Fifo(placer=Packed(), sharing=NoSharing(), skip_blocked=True),
    )
    assert gantt(packed) == {"A": (0, 10, (0, 1))}
