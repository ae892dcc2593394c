"""Work-conserving scan in order of predicted duration."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Spjf, WcsDuration, WcsWorkload
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
# Two GPUs: A holds one to 4. B needs both; of C and D the shorter fills the gap at 1.
TRACE = [Job(0, 1, 4), Job(1, 2, 2), Job(1, 1, 6), Job(1, 1, 3)]


def scanned():
    return play(world(TRACE, cluster(1, 2)), WcsDuration(**RULES, skip_blocked=True))


def test_the_shortest_that_fits_starts():
    #         0   4  6     12      B (2) does not fit at 1: D (3) does, then the GPUs are B's at 4
    # GPU 0   AAAABBCCCCCC
    # GPU 1    DDDBB
    assert gantt(scanned()) == {
        "A": (0, 4, (0,)), "D": (1, 4, (1,)), "B": (4, 6, (0, 1)), "C": (6, 12, (0,)),
    }  # fmt: skip


def test_spjf_leaves_the_gap():
    run = play(world(TRACE, cluster(1, 2)), Spjf(**RULES, skip_blocked=False))
    assert gantt(run)["D"] == (6, 9, (0,))


def test_by_workload_the_order_of_wide_and_narrow_turns():
    # At 0 both wait for nobody: by duration B (2 s on 2 GPUs) first, by work D (3 GPU-s).
    trace = [Job(0, 2, 2), Job(0, 1, 3)]
    by_duration = play(world(trace, cluster(1, 2)), WcsDuration(**RULES, skip_blocked=True))
    by_work = play(world(trace, cluster(1, 2)), WcsWorkload(**RULES, skip_blocked=True))
    assert gantt(by_duration) == {"A": (0, 2, (0, 1)), "B": (2, 5, (0,))}
    assert gantt(by_work) == {"B": (0, 3, (0,)), "A": (3, 5, (0, 1))}
