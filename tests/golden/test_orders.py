"""Orders of textbooks: first in, first out; shortest, smallest, least work; with and without gaps.

Each on a timeline on which its nearest relatives do otherwise.
"""

from sim.placers.by_room import FirstFit
from sim.run import Run
from sim.schedulers.orders import (
    Fifo,
    Sjf,
    SmallestGang,
    Spjf,
    Spwf,
    Srsf,
    Srtf,
    WcsDuration,
    WcsSubtime,
    WcsWorkload,
)
from sim.sharing import NoSharing
from sim.view import Signal
from tests.sim.worlds import Job, attempts, cluster, gantt, play, world

PREEMPT = (Srsf, Srtf)
RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def ran(order: type, trace: list[Job], gpus: int, *, skip: bool = False) -> Run:
    """On one server; those behind a blocked job may start where `skip`."""
    given = RULES if order in PREEMPT else {**RULES, "skip_blocked": skip}
    return play(world(trace, cluster(1, gpus)), order(**given))


def told(order: type, trace: list[Job], gpus: int, *, skip: bool = False) -> dict:
    return gantt(ran(order, trace, gpus, skip=skip))


BLOCKED = [Job(0, 1, 10), Job(1, 2, 5), Job(2, 1, 3)]


def test_fifo_a_blocked_head_blocks_the_queue():
    #         0    5    10   15   20
    # GPU 0   AAAAAAAAAABBBBBCCC
    # GPU 1   ..........BBBBB        B wants both GPUs; C waits behind B
    run = ran(Fifo, BLOCKED, 2)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (15, 18, (0,))}
    assert run.scheduler == "fifo+first_fit"


def test_fifo_skip_those_behind_may_start():
    #         0    5    10   15
    # GPU 0   AAAAAAAAAABBBBB
    # GPU 1   ..CCC.....BBBBB
    run = ran(Fifo, BLOCKED, 2, skip=True)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (2, 5, (1,))}
    assert run.scheduler == "fifo_skip+first_fit"


def test_fifo_jobs_of_one_instant_start_in_order_of_rows():
    #         0  3  6
    # GPU 0   AAABBBCCC
    found = told(Fifo, [Job(0, 1, 3)] * 3, 1)
    assert found == {"A": (0, 3, (0,)), "B": (3, 6, (0,)), "C": (6, 9, (0,))}


# A holds one of two GPUs. By duration B (2) goes before C (3); by work C (3) before B (4).
WIDE = [Job(0, 1, 5), Job(1, 2, 2), Job(1, 1, 3)]


def test_spjf_the_shortest_waits_and_blocks_the_rest():
    #         0    5 7  10
    # GPU 0   AAAAABBCCC
    # GPU 1        BB
    found = told(Spjf, WIDE, 2)
    assert found == {"A": (0, 5, (0,)), "B": (5, 7, (0, 1)), "C": (7, 10, (0,))}


def test_sjf_lets_others_pass_and_spwf_counts_gpus():
    # Both start C beside A: SJF since B does not fit, SPWF since C has less work.
    #         0    5 7
    # GPU 0   AAAAABB
    # GPU 1    CCC BB
    beside = {"A": (0, 5, (0,)), "C": (1, 4, (1,)), "B": (5, 7, (0, 1))}
    assert told(Sjf, WIDE, 2, skip=True) == beside
    assert told(Spwf, WIDE, 2) == beside


def test_spjf_believes_the_prediction():
    found = told(Spjf, [Job(0, 1, 1, estimate_s=9), Job(0, 1, 9, estimate_s=1)], 1)
    assert found == {"B": (0, 9, (0,)), "A": (9, 10, (0,))}


def test_spwf_the_least_work_waits_and_blocks_the_rest():
    # Three GPUs, two of them held by A. Work: B 2 x 2 = 4, C 1 x 5 = 5; durations B 2, C 5, D 4.
    #          0     6 8  11  15
    # GPU 0-2  A A - B B C  D D D     B (4) waits for A; C (5) blocks D (12) from 6, beside B
    trace = [Job(0, 2, 6), Job(1, 2, 2), Job(1, 1, 5), Job(1, 3, 4)]
    found = told(Spwf, trace, 3)
    assert found == {
        "A": (0, 6, (0, 1)), "B": (6, 8, (0, 1)), "C": (6, 11, (2,)), "D": (11, 15, (0, 1, 2)),
    }  # fmt: skip
    # SPJF, by duration B (2), D (4), C (5), puts the wide job before the long one.
    assert told(Spjf, trace, 3) == {**found, "D": (8, 12, (0, 1, 2)), "C": (12, 17, (0,))}


# Two GPUs: A holds one to 4. B needs both; of C and D the shorter fills the gap at 1.
GAP = [Job(0, 1, 4), Job(1, 2, 2), Job(1, 1, 6), Job(1, 1, 3)]


def test_wcs_duration_the_shortest_that_fits_starts():
    #         0   4  6     12      B (2) does not fit at 1: D (3) does, then the GPUs are B's at 4
    # GPU 0   AAAABBCCCCCC
    # GPU 1    DDDBB
    assert told(WcsDuration, GAP, 2, skip=True) == {
        "A": (0, 4, (0,)), "D": (1, 4, (1,)), "B": (4, 6, (0, 1)), "C": (6, 12, (0,)),
    }  # fmt: skip
    assert told(Spjf, GAP, 2)["D"] == (6, 9, (0,))  # which leaves the gap


def test_wcs_subtime_the_first_that_fits_starts():
    #         0   4  7  9      B does not fit at 1: C does, D takes A's GPU at 4, B comes last
    # GPU 0   AAAADDDBB
    # GPU 1    CCCCCCBB
    assert told(WcsSubtime, GAP, 2, skip=True) == {
        "A": (0, 4, (0,)), "C": (1, 7, (1,)), "D": (4, 7, (0,)), "B": (7, 9, (0, 1)),
    }  # fmt: skip
    assert WcsSubtime.order_needs == Signal.NONE
    assert told(Fifo, GAP, 2)["C"] == (6, 12, (0,))  # which keeps the order


def test_wcs_workload_the_least_work_that_fits_starts():
    # Work: B 2 x 2 = 4 does not fit, C 6, D 5.
    #         0   4 6     10      D (5) fits at 1, C (6) takes A's GPU at 4 while B waits again
    # GPU 0   AAAACCCCCCBB
    # GPU 1    DDDDD    BB
    trace = [*GAP[:3], Job(1, 1, 5)]
    assert told(WcsWorkload, trace, 2, skip=True) == {
        "A": (0, 4, (0,)), "D": (1, 6, (1,)), "C": (4, 10, (0,)), "B": (10, 12, (0, 1)),
    }  # fmt: skip
    # SPWF keeps the order:
    #         0   4 6    11 12
    # GPU 0   AAAABBDDDDD
    # GPU 1       BBCCCCCC
    assert told(Spwf, trace, 2) == {
        "A": (0, 4, (0,)), "B": (4, 6, (0, 1)), "D": (6, 11, (0,)), "C": (6, 12, (1,)),
    }  # fmt: skip


def test_by_workload_the_order_of_wide_and_narrow_turns():
    # At 0 both wait for nobody: by duration B (2 s on 2 GPUs) first, by work D (3 GPU-s).
    trace = [Job(0, 2, 2), Job(0, 1, 3)]
    by_duration = {"A": (0, 2, (0, 1)), "B": (2, 5, (0,))}
    assert told(WcsDuration, trace, 2, skip=True) == by_duration
    assert told(WcsWorkload, trace, 2, skip=True) == {"B": (0, 3, (0,)), "A": (3, 5, (0, 1))}


def test_smallest_gang_few_gpus_go_before_many():
    #           0         10   15 18
    # GPU 0, 1  AAAAAAAAAACCCCCBBB
    # GPU 2, 3  AAAAAAAAAADDDDDBBB
    trace = [Job(0, 4, 10), Job(1, 4, 3), Job(2, 2, 5), Job(3, 2, 5)]
    found = told(SmallestGang, trace, 4, skip=True)
    assert found == {
        "A": (0, 10, (0, 1, 2, 3)), "B": (15, 18, (0, 1, 2, 3)), "C": (10, 15, (0, 1)),
        "D": (10, 15, (2, 3)),
    }  # fmt: skip
    # FIFO and SJF: B was first, and is shortest too, so C and D come after it.
    for other in (Fifo, Sjf):
        assert told(other, trace, 4, skip=True) == {
            **found, "B": (10, 13, (0, 1, 2, 3)), "C": (13, 18, (0, 1)), "D": (13, 18, (2, 3)),
        }  # fmt: skip


def test_srsf_service_counts_the_gpus():
    # At 1 A has 5 s on 4 GPUs left, 20 GPU-s; B asks for 10.
    #         0 1         11   16
    # GPU 0   A BBBBBBBBBB AAAAA
    # GPU 1-3 A .......... AAAAA
    trace = [Job(0, 4, 6), Job(1, 1, 10)]
    assert attempts(ran(Srsf, trace, 4).log) == {
        "A": [(0, 1, (0, 1, 2, 3)), (11, 16, (0, 1, 2, 3))],
        "B": [(1, 11, (0,))],
    }
    # SRTF: at 1 A has 5 s left, B 10.
    #         0     6         16
    # GPU 0   AAAAAABBBBBBBBBB
    assert told(Srtf, trace, 4) == {"A": (0, 6, (0, 1, 2, 3)), "B": (6, 16, (0,))}


def test_srsf_believes_the_prediction_and_leaves_alone_who_outran_it():
    # A is predicted to end at 2. At 1 it has 1 s left by prediction, B asks for 5; at 3, 0 s and 1.
    #         0         10 11
    # GPU 0   AAAAAAAAAACBBBBB
    trace = [Job(0, 1, 10, estimate_s=2), Job(1, 1, 5), Job(3, 1, 1)]
    found = told(Srsf, trace, 1)
    assert found == {"A": (0, 10, (0,)), "B": (11, 16, (0,)), "C": (10, 11, (0,))}
