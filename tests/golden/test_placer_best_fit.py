"""Best fit: tight servers first, and full servers first for gangs that fit none."""

from sim.placers.by_room import BestFit, Consolidated, FirstFit, Packed
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, cluster, gantt, play, world

# Server 0 has one GPU left, server 1 two, server 2 all four.
HELD = [Held((0, 1, 2)), Held((4, 5))]


def test_the_fewest_sufficient_gpus():
    three = cluster(3, 4)
    assert answer(BestFit(), 1, three, HELD) == (3,)
    assert answer(BestFit(), 2, three, HELD) == (6, 7)
    assert answer(FirstFit(), 2, three, HELD) == (3, 6)
    assert answer(BestFit(), 4, three, HELD) == (8, 9, 10, 11)


def test_a_gang_that_fits_no_server_fills_the_fullest_first():
    # Five workers: one on server 0, two on server 1, two on server 2, which keeps two.
    three = cluster(3, 4)
    assert answer(BestFit(), 5, three, HELD) == (3, 6, 7, 8, 9)
    assert answer(Packed(), 5, three, HELD) == (8, 9, 10, 11, 3)  # as compact as can be
    assert answer(BestFit(), 8, three, HELD) is None


def test_it_never_waits():
    #                  0 2  5 6  9
    # server 0  GPU 0  AAAAAAAAAA        E (two GPUs) comes at 3 and starts at 5 on what there is
    #           GPU 1  BB   EE
    # server 1  GPU 2  CCCCCCCCCC
    #           GPU 3  DDDDDEE
    trace = [Job(0, 1, 9), Job(0, 1, 2), Job(0, 1, 9), Job(0, 1, 5), Job(3, 2, 2)]
    rules = {"sharing": NoSharing(), "skip_blocked": False}
    run = play(world(trace, cluster(2, 2)), Fifo(placer=BestFit(), **rules))
    assert gantt(run)["E"] == (5, 7, (1, 3))
    waits = play(world(trace, cluster(2, 2)), Fifo(placer=Consolidated(), **rules))
    assert gantt(waits)["E"][0] == 9
