"""Least interference first."""

from sim.placers.by_room import FirstFit, LeastInterference, Packed
from sim.protocols import Placer
from sim.run import Run
from sim.schedulers.orders import LeastInterferenceFirst
from sim.sharing import AlwaysShare
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

# Profile 0 is heavy, 1 light. [victim][aggressor]: two heavy ones 4x, any other pair 2x.
SLOWDOWN = ((4.0, 2.0), (2.0, 2.0))
TRACE = [Job(0, 1, 10, profile=0), Job(1, 1, 10, profile=0), Job(2, 1, 4, profile=1)]


def run_with(placer: Placer) -> Run:
    topology = cluster(1, 2)
    scheduler = LeastInterferenceFirst(placer=placer, sharing=AlwaysShare(), skip_blocked=True)
    physics = physics_of(topology, slowdown=SLOWDOWN)
    return play(world(TRACE, topology, physics=physics, max_tenants=2), scheduler)


def test_workers_go_where_self_and_victims_suffer_least():
    # B: beside A it would cost 4 x 4, alone 1: GPU 1. C costs 2 x 2 on either: the lower id.
    # C does 4 s of work at half speed: 2 to 10. A: 2 s, then 8 s at half speed = 6, then 4 more.
    #         0 2       10  14
    # GPU 0   AAAAAAAAAAAAAA
    #           CCCCCCCC
    # GPU 1    BBBBBBBBBB
    assert gantt(run_with(LeastInterference())) == {
        "A": (0, 14, (0,)),
        "B": (1, 11, (1,)),
        "C": (2, 10, (0,)),
    }


def test_first_fit_differs():
    # B joins A on GPU 0 at 1; C finds it full. A has 9 s left at quarter speed: 37. B has done 9
    # by then, and does its last second alone.
    #         0 1  2  6             37 38
    # GPU 0   AAAAAAAAAAAAAAAAAAAAAAA
    #           BBBBBBBBBBBBBBBBBBBBBBB
    # GPU 1        CCCC
    assert gantt(run_with(FirstFit())) == {
        "A": (0, 37, (0,)),
        "B": (1, 38, (0,)),
        "C": (2, 6, (1,)),
    }


def test_it_is_blind_to_spread_where_packed_is_not():
    # Server 0 has a light job on GPU 0; a gang of two is cheapest on 1 and 2, across servers.
    topology = cluster(2, 2)
    physics = physics_of(topology, slowdown=SLOWDOWN)
    trace = [Job(0, 1, 10, profile=1), Job(1, 2, 4, profile=1)]

    def gpus(placer: Placer) -> tuple[int, ...]:
        rules = {"sharing": AlwaysShare(), "skip_blocked": True}
        scheduler = LeastInterferenceFirst(placer=placer, **rules)
        return gantt(play(world(trace, topology, physics=physics, max_tenants=2), scheduler))["B"][
            2
        ]

    assert gpus(LeastInterference()) == (1, 2)
    assert gpus(Packed()) == (0, 1)  # both servers have two usable GPUs: the lowest index
