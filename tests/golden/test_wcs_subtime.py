"""Work-conserving scan in order of submission."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, WcsDuration, WcsSubtime
from sim.sharing import NoSharing
from sim.view import Signal
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
TRACE = [Job(0, 1, 4), Job(1, 2, 2), Job(1, 1, 6), Job(1, 1, 3)]


def test_the_first_that_fits_starts():
    #         0   4  7  9      B does not fit at 1: C does, D takes A's GPU at 4, B comes last
    # GPU 0   AAAADDDBB
    # GPU 1    CCCCCCBB
    run = play(world(TRACE, cluster(1, 2)), WcsSubtime(**RULES, skip_blocked=True))
    assert gantt(run) == {
        "A": (0, 4, (0,)), "C": (1, 7, (1,)), "D": (4, 7, (0,)), "B": (7, 9, (0, 1)),
    }  # fmt: skip
    assert WcsSubtime.order_needs == Signal.NONE


def test_fifo_keeps_the_order_and_wcs_duration_takes_the_shorter():
    fifo = play(world(TRACE, cluster(1, 2)), Fifo(**RULES, skip_blocked=False))
    assert gantt(fifo)["C"] == (6, 12, (0,))
    shorter = play(world(TRACE, cluster(1, 2)), WcsDuration(**RULES, skip_blocked=True))
    assert gantt(shorter)["D"] == (1, 4, (1,))
