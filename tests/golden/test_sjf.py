"""Shortest job first, by prediction."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, Sjf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 1, 10), Job(1, 1, 8), Job(2, 1, 2)]


def sjf() -> Sjf:
    return Sjf(placer=FirstFit(), sharing=NoSharing(), skip_blocked=True)


def test_the_short_job_passes_the_long_one_but_not_the_running_one():
    #         0         10 12      20
    # GPU 0   AAAAAAAAAACCBBBBBBBB
    run = play(world(TRACE, cluster(1, 1)), sjf())
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (12, 20, (0,)), "C": (10, 12, (0,))}


def test_fifo_differs():
    #         0         10      18 20
    # GPU 0   AAAAAAAAAABBBBBBBBCC
    fifo = Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=True)
    run = play(world(TRACE, cluster(1, 1)), fifo)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 18, (0,)), "C": (18, 20, (0,))}


def test_it_follows_the_prediction_where_that_is_wrong():
    #         0         10      18 20    B is predicted at 1 s, C at 5 s
    # GPU 0   AAAAAAAAAABBBBBBBBCC
    trace = [Job(0, 1, 10), Job(1, 1, 8, estimate_s=1), Job(2, 1, 2, estimate_s=5)]
    run = play(world(trace, cluster(1, 1)), sjf())
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 18, (0,)), "C": (18, 20, (0,))}


def test_equal_predictions_go_by_submission():
    run = play(world([Job(0, 1, 4), Job(1, 1, 2), Job(1, 1, 2)], cluster(1, 1)), sjf())
    assert gantt(run) == {"A": (0, 4, (0,)), "B": (4, 6, (0,)), "C": (6, 8, (0,))}
