"""Smallest gang first."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, Sjf, SmallestGang
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 4, 10), Job(1, 4, 3), Job(2, 2, 5), Job(3, 2, 5)]
RULES = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": True}


def test_few_gpus_go_before_many():
    #           0         10   15 18
    # GPU 0, 1  AAAAAAAAAACCCCCBBB
    # GPU 2, 3  AAAAAAAAAADDDDDBBB
    run = play(world(TRACE, cluster(1, 4)), SmallestGang(**RULES))
    assert gantt(run) == {
        "A": (0, 10, (0, 1, 2, 3)),
        "B": (15, 18, (0, 1, 2, 3)),
        "C": (10, 15, (0, 1)),
        "D": (10, 15, (2, 3)),
    }


def test_fifo_skip_and_sjf_differ():
    #           0         10 13   18
    # GPU 0, 1  AAAAAAAAAABBBCCCCC        B was first, and is shortest too
    # GPU 2, 3  AAAAAAAAAABBBDDDDD
    for other in (Fifo(**RULES), Sjf(**RULES)):
        run = play(world(TRACE, cluster(1, 4)), other)
        assert gantt(run) == {
            "A": (0, 10, (0, 1, 2, 3)),
            "B": (10, 13, (0, 1, 2, 3)),
            "C": (13, 18, (0, 1)),
            "D": (13, 18, (2, 3)),
        }
