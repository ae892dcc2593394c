"""Shortest remaining time first, with preemption."""

from sim.placers.by_room import Consolidated, FirstFit
from sim.schedulers.orders import Sjf, Srtf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, attempts, cluster, gantt, play, world

# Predictions are the wrong way round: SRTF knows better, SJF does not.
TRACE = [Job(0, 1, 10, estimate_s=1), Job(1, 1, 8, estimate_s=2), Job(2, 1, 2, estimate_s=9)]


def srtf() -> Srtf:
    return Srtf(placer=FirstFit(), sharing=NoSharing())


def test_less_work_left_takes_the_gpu():
    #         0 1 2 4       11        20
    # GPU 0   A B CC BBBBBBB AAAAAAAAA     at 1 A has 9 left, B 8; at 2 B has 7 left, C 2
    run = play(world(TRACE, cluster(1, 1)), srtf())
    assert attempts(run.log) == {
        "A": [(0, 1, (0,)), (11, 20, (0,))],
        "B": [(1, 2, (0,)), (4, 11, (0,))],
        "C": [(2, 4, (0,))],
    }
    assert run.preemptions.tolist() == [1, 1, 0]
    assert run.run_s.tolist() == [10, 8, 2]


def test_each_restart_holds_the_gpu_without_progress():
    #         0 1 2 4 5       12 13        22    restart_s 1: r
    # GPU 0   A B CC r BBBBBBB  r AAAAAAAAA
    run = play(world(TRACE, cluster(1, 1), restart_s=1.0), srtf())
    assert attempts(run.log) == {
        "A": [(0, 1, (0,)), (12, 22, (0,))],
        "B": [(1, 2, (0,)), (4, 12, (0,))],
        "C": [(2, 4, (0,))],
    }


def test_sjf_differs_it_preempts_nobody_and_believes_the_prediction():
    #         0         10      18 20
    # GPU 0   AAAAAAAAAABBBBBBBBCC
    sjf = Sjf(placer=FirstFit(), sharing=NoSharing(), skip_blocked=True)
    run = play(world(TRACE, cluster(1, 1)), sjf)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 18, (0,)), "C": (18, 20, (0,))}


def test_only_those_whose_gpus_are_needed_are_preempted():
    #         0 1   5     11 12       20
    # GPU 0   AAAAAAAAAA                       A 10 s, alone on server 0
    # GPU 1   ....                             C wants one whole server for 4 s
    # GPU 2   B CCCC BBBBBBBBBBB
    # GPU 3   . CCCC                           B (12 s) has most left and goes
    trace = [Job(0, 1, 10), Job(0, 2, 12), Job(1, 2, 4)]
    scheduler = Srtf(placer=Consolidated(), sharing=NoSharing())
    run = play(world(trace, cluster(2, 2)), scheduler)
    assert attempts(run.log) == {
        "A": [(0, 10, (0,))],
        "B": [(0, 1, (2, 3)), (5, 16, (2, 3))],
        "C": [(1, 5, (2, 3))],
    }


def test_who_cannot_be_placed_even_so_preempts_nobody():
    # C (2 GPUs, 12 s) may only push aside B (20 s left); A (5 s) stays, so C gains nothing.
    #         0    5    10   15   20   25   30   35
    # GPU 0   AAAAACCCCCCCCCCCC
    # GPU 1   BBBBBCCCCCCCCCCCCBBBBBBBBBBBBBBB
    trace = [Job(0, 1, 5), Job(0, 1, 20), Job(1, 2, 12)]
    run = play(world(trace, cluster(1, 2)), srtf())
    assert attempts(run.log) == {
        "A": [(0, 5, (0,))],
        "B": [(0, 5, (1,)), (17, 32, (0,))],
        "C": [(5, 17, (0, 1))],
    }
