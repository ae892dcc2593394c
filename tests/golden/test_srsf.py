"""Shortest remaining service first."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Srsf, Srtf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, attempts, cluster, play, world

TRACE = [Job(0, 4, 6), Job(1, 1, 10)]
RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def test_service_counts_the_gpus():
    # At 1 A has 5 s on 4 GPUs left, 20 GPU-s; B asks for 10.
    #         0 1         11   16
    # GPU 0   A BBBBBBBBBB AAAAA
    # GPU 1-3 A .......... AAAAA
    run = play(world(TRACE, cluster(1, 4)), Srsf(**RULES))
    assert attempts(run.log) == {
        "A": [(0, 1, (0, 1, 2, 3)), (11, 16, (0, 1, 2, 3))],
        "B": [(1, 11, (0,))],
    }


def test_srtf_differs():
    #         0     6         16     at 1 A has 5 s left, B 10
    # GPU 0   AAAAAABBBBBBBBBB
    run = play(world(TRACE, cluster(1, 4)), Srtf(**RULES))
    assert attempts(run.log) == {"A": [(0, 6, (0, 1, 2, 3))], "B": [(6, 16, (0,))]}


def test_it_believes_the_prediction_and_leaves_alone_who_outran_it():
    # A is predicted to end at 2. At 1 it has 1 s left by prediction, B asks for 5; at 3, 0 s and 1.
    #         0         10 11
    # GPU 0   AAAAAAAAAACBBBBB
    trace = [Job(0, 1, 10, estimate_s=2), Job(1, 1, 5), Job(3, 1, 1)]
    run = play(world(trace, cluster(1, 1)), Srsf(**RULES))
    assert attempts(run.log) == {"A": [(0, 10, (0,))], "B": [(11, 16, (0,))], "C": [(10, 11, (0,))]}
