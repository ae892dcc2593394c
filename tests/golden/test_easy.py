"""FIFO with EASY backfill."""

import pytest

from sim.errors import GpuYardError
from sim.placers.by_room import Consolidated, FirstFit
from sim.schedulers.easy import Easy
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 1, 10), Job(1, 2, 5), Job(2, 1, 3), Job(3, 1, 20)]
RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def easy(overrun_s: float = 1.0) -> Easy:
    return Easy(**RULES, overrun_s=overrun_s)


def test_only_who_is_over_in_time_passes_the_head():
    # B wants both GPUs and has them reserved for 10. C is over at 5, D would not be.
    #         0    5    10   15     35
    # GPU 0   AAAAAAAAAABBBBBDDD...D
    # GPU 1   ..CCC.....BBBBB
    run = play(world(TRACE, cluster(1, 2)), easy())
    assert gantt(run) == {
        "A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (2, 5, (1,)), "D": (15, 35, (0,)),
    }  # fmt: skip


def test_fifo_differs_with_and_without_skipping():
    #  skipping                            strict
    #         0    5    10       25 30           0         10   15 18     35
    # GPU 0   AAAAAAAAAA.........BBBBB   GPU 0   AAAAAAAAAABBBBBCCC
    # GPU 1   ..CCCDDDDDDDDD...DDBBBBB   GPU 1   ..........BBBBBDDDDD...D
    skip, strict = (
        gantt(play(world(TRACE, cluster(1, 2)), Fifo(**RULES, skip_blocked=skipping)))
        for skipping in (True, False)
    )
    assert (skip["B"], skip["D"]) == ((25, 30, (0, 1)), (5, 25, (1,)))
    assert (strict["C"], strict["D"]) == ((15, 18, (0,)), (15, 35, (1,)))


def test_long_jobs_may_have_what_the_head_will_not_need():
    #         0 2       10   15     32     at 10 B will have GPUs 0 and 1
    # GPU 0   AAAAAAAAAABBBBB
    # GPU 1   AAAAAAAAAABBBBB
    # GPU 2   ..CCCCCCCCCCCCC...CC
    run = play(world([Job(0, 2, 10), Job(1, 2, 5), Job(2, 1, 30)], cluster(1, 3)), easy())
    assert gantt(run) == {"A": (0, 10, (0, 1)), "B": (10, 15, (0, 1)), "C": (2, 32, (2,))}


def test_a_compact_place_is_reserved():
    # From 2 two GPUs are free, on two servers: D waits for server 0, which is its own from 10.
    # E (20 s) goes to server 1, F (6 s) is over in time.
    #         0 2 4     10   15
    # GPU 0   AAAAAAAAAADDDDD
    # GPU 1   BB..FFFFFFDDDDD
    # GPU 2   CCCCCCCCCCCC
    # GPU 3   ....EEEEEEEEEEE...E
    trace = [Job(0, 1, 10), Job(0, 1, 2), Job(0, 1, 12), Job(3, 2, 5), Job(4, 1, 20), Job(4, 1, 6)]
    scheduler = Easy(placer=Consolidated(), sharing=NoSharing(), overrun_s=1.0)
    run = play(world(trace, cluster(2, 2)), scheduler)
    assert gantt(run) == {
        "A": (0, 10, (0,)), "B": (0, 2, (1,)), "C": (0, 12, (2,)), "D": (10, 15, (0, 1)),
        "E": (4, 24, (3,)), "F": (4, 10, (1,)),
    }  # fmt: skip


def test_who_outran_its_prediction_is_about_to_end():
    # A was to end at 2. At 3 it is taken to end at 8: C (4 s) passes B, D (6 s) does not, nor at 7,
    # when A is taken to end at 12.
    #         0  3   7  10   15    21
    # GPU 0   AAAAAAAAAABBBBBDDDDDD
    # GPU 1   ...CCCC...BBBBB
    trace = [Job(0, 1, 10, estimate_s=2), Job(1, 2, 5), Job(3, 1, 4), Job(3, 1, 6)]
    run = play(world(trace, cluster(1, 2)), easy(overrun_s=5.0))
    assert gantt(run) == {
        "A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (3, 7, (1,)), "D": (15, 21, (0,)),
    }  # fmt: skip


def test_an_overrun_of_nothing_is_refused():
    with pytest.raises(GpuYardError, match=r"overrun_s is 0.*above 0"):
        easy(overrun_s=0.0)
