"""Work-conserving scan in order of predicted workload."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Spwf, WcsWorkload
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
# Two GPUs: A holds one to 4. Work: B 2 x 2 = 4 does not fit, C 5, D 6.
TRACE = [Job(0, 1, 4), Job(1, 2, 2), Job(1, 1, 6), Job(1, 1, 5)]


def test_the_least_work_that_fits_starts():
    #         0   4 6     10      D (5) fits at 1, C (6) takes A's GPU at 4 while B waits again
    # GPU 0   AAAACCCCCCBB
    # GPU 1    DDDDD    BB
    run = play(world(TRACE, cluster(1, 2)), WcsWorkload(**RULES, skip_blocked=True))
    assert gantt(run) == {
        "A": (0, 4, (0,)), "D": (1, 6, (1,)), "C": (4, 10, (0,)), "B": (10, 12, (0, 1)),
    }  # fmt: skip


def test_spwf_keeps_the_order():
    #         0   4 6    11 12
    # GPU 0   AAAABBDDDDD
    # GPU 1       BBCCCCCC
    run = play(world(TRACE, cluster(1, 2)), Spwf(**RULES, skip_blocked=False))
    assert gantt(run) == {
        "A": (0, 4, (0,)), "B": (4, 6, (0, 1)), "D": (6, 11, (0,)), "C": (6, 12, (1,)),
    }  # fmt: skip
