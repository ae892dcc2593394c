"""Smallest predicted workload first, head of line blocking."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Spjf, Spwf, WcsWorkload
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": False}
# Three GPUs, two of them held by A. Work: B 2 x 2 = 4, C 1 x 5 = 5; durations B 2, C 5, D 4.
TRACE = [Job(0, 2, 6), Job(1, 2, 2), Job(1, 1, 5), Job(1, 3, 4)]


def test_the_least_work_waits_and_blocks_the_rest():
    #          0     6 8  11  15
    # GPU 0-2  A A - B B C  D D D     B (4) waits for A; C (5) blocks D (12) from 6, beside B
    run = play(world(TRACE, cluster(1, 3)), Spwf(**RULES))
    assert gantt(run) == {
        "A": (0, 6, (0, 1)), "B": (6, 8, (0, 1)), "C": (6, 11, (2,)), "D": (11, 15, (0, 1, 2)),
    }  # fmt: skip


def test_spjf_puts_the_wide_job_before_the_long_one():
    # By duration: B (2), D (4), C (5).
    run = play(world(TRACE, cluster(1, 3)), Spjf(**RULES))
    assert gantt(run) == {
        "A": (0, 6, (0, 1)), "B": (6, 8, (0, 1)), "D": (8, 12, (0, 1, 2)), "C": (12, 17, (0,)),
    }  # fmt: skip


def test_the_work_conserving_form_fills_the_gap():
    run = play(world(TRACE, cluster(1, 3)), WcsWorkload(**{**RULES, "skip_blocked": True}))
    assert gantt(run)["C"] == (1, 6, (2,))
