"""Tetris with one resource: packing score against shortest remaining work."""

from sim.placers.by_room import LeastLoaded, WorstFit
from sim.schedulers.orders import LoadBalance, Sjf, Tetris
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 4, 10), Job(1, 1, 8), Job(2, 4, 4), Job(3, 1, 3)]
RULES = {"sharing": NoSharing(), "skip_blocked": True}


def test_the_big_gang_goes_first_on_an_empty_server():
    # At 10, one server of 4 GPUs, all free. Alignment (share wanted x share free): B 1/4, C 1,
    # D 1/4, mean 1/2. Work in GPU-s: B 8, C 16, D 3, mean 9.
    # Score: B 1/4 - 1/2 * 8/9 = -0.19;  C 1 - 1/2 * 16/9 = 0.11;  D 1/4 - 1/2 * 3/9 = 0.08.
    #         0         10  14 17   22
    # GPU 0   AAAAAAAAAACCCCDDD           at 14 D has less work than B
    # GPU 1   AAAAAAAAAACCCCBBBBBBBB
    # GPU 2   AAAAAAAAAACCCC
    # GPU 3   AAAAAAAAAACCCC
    run = play(world(TRACE, cluster(1, 4)), Tetris(placer=WorstFit(), **RULES))
    assert gantt(run) == {
        "A": (0, 10, (0, 1, 2, 3)),
        "B": (14, 22, (1,)),
        "C": (10, 14, (0, 1, 2, 3)),
        "D": (14, 17, (0,)),
    }


def test_sjf_differs():
    #         0         10      18  22      D (3 s) first, C blocked, B beside D
    # GPU 0   AAAAAAAAAADDD.....CCCC
    # GPU 1   AAAAAAAAAABBBBBBBBCCCC
    run = play(world(TRACE, cluster(1, 4)), Sjf(placer=WorstFit(), **RULES))
    assert gantt(run) == {
        "A": (0, 10, (0, 1, 2, 3)),
        "B": (10, 18, (1,)),
        "C": (18, 22, (0, 1, 2, 3)),
        "D": (10, 13, (0,)),
    }


def test_load_balance_differs():
    #         0         10      18  22      B first, C blocked, D beside B
    # GPU 0   AAAAAAAAAABBBBBBBBCCCC
    # GPU 1   AAAAAAAAAADDD.....CCCC
    run = play(world(TRACE, cluster(1, 4)), LoadBalance(placer=LeastLoaded(), **RULES))
    assert gantt(run) == {
        "A": (0, 10, (0, 1, 2, 3)),
        "B": (10, 18, (0,)),
        "C": (18, 22, (0, 1, 2, 3)),
        "D": (10, 13, (1,)),
    }
