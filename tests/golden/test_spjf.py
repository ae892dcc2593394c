"""Shortest predicted job first, head of line blocking."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Sjf, Spjf, Spwf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
# A holds one of two GPUs. By duration B (2) goes before C (3); by work C (3) before B (4).
TRACE = [Job(0, 1, 5), Job(1, 2, 2), Job(1, 1, 3)]


def test_the_shortest_waits_and_blocks_the_rest():
    #         0    5 7  10
    # GPU 0   AAAAABBCCC
    # GPU 1        BB
    run = play(world(TRACE, cluster(1, 2)), Spjf(**RULES, skip_blocked=False))
    assert gantt(run) == {"A": (0, 5, (0,)), "B": (5, 7, (0, 1)), "C": (7, 10, (0,))}


def test_sjf_lets_others_pass_and_spwf_counts_gpus():
    # Both start C beside A: SJF since B does not fit, SPWF since C has less work.
    #         0    5 7
    # GPU 0   AAAAABB
    # GPU 1    CCC BB
    beside = {"A": (0, 5, (0,)), "C": (1, 4, (1,)), "B": (5, 7, (0, 1))}
    for scheduler in (Sjf(**RULES, skip_blocked=True), Spwf(**RULES, skip_blocked=False)):
        assert gantt(play(world(TRACE, cluster(1, 2)), scheduler)) == beside


def test_it_believes_the_prediction():
    trace = [Job(0, 1, 1, estimate_s=9), Job(0, 1, 9, estimate_s=1)]
    run = play(world(trace, cluster(1, 1)), Spjf(**RULES, skip_blocked=False))
    assert gantt(run) == {"B": (0, 9, (0,)), "A": (9, 10, (0,))}
