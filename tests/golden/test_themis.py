"""Finish-time fairness by auction."""

from itertools import product

import numpy as np
import pytest

from sim.errors import GpuYardError
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, Las
from sim.schedulers.themis import Themis, most_valuable
from sim.sharing import NoSharing
from tests.sim.worlds import Job, attempts, cluster, gantt, play, world

TRACE = [Job(0, 1, 12), Job(1, 1, 20)]
RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def themis(fairness_knob: float, round_s: float = 10.0) -> Themis:
    return Themis(placer=FirstFit(), round_s=round_s, fairness_knob=fairness_knob)


def test_the_one_treated_worst_gets_the_gpu():
    # Half of the two bid: the one with the larger rho = (age + rest) / (2 x duration).
    # At 10: A (10 + 2) / 24 = 0.5, B (9 + 20) / 40 = 0.73. At 20: A 22 / 24, B (19 + 10) / 40.
    #         0         10        20 22        32
    # GPU 0   AAAAAAAAAABBBBBBBBBBAABBBBBBBBBB
    run = play(world(TRACE, cluster(1, 1)), themis(0.5))
    assert attempts(run.log) == {
        "A": [(0, 10, (0,)), (20, 22, (0,))],
        "B": [(10, 20, (0,)), (22, 32, (0,))],
    }


def test_three_of_ten_bid_where_the_knob_is_0_7():
    # All are treated alike at 0, so the first three bid. D would win, but it is the fourth.
    jobs = [Job(0, 1, 5 if at == 3 else 30) for at in range(10)]
    run = play(world(jobs, cluster(1, 3)), themis(0.7))
    first = [name for name, times in attempts(run.log).items() if times[0][0] == 0]
    assert first == ["A", "B", "C"]


def test_where_all_bid_the_largest_improvement_wins():
    # At 10 both bid: ten seconds more are ln(22 / 12) to A, ln(39 / 29) to B. A goes on.
    run = play(world(TRACE, cluster(1, 1)), themis(0.0))
    assert gantt(run) == {"A": (0, 12, (0,)), "B": (12, 32, (0,))}


def test_fifo_and_las_differ():
    # FIFO lets A finish. LAS with quanta of 10 passes the GPU at 10, too, but then B has no more
    # service than A and keeps it.
    fifo = play(world(TRACE, cluster(1, 1)), Fifo(**RULES, skip_blocked=True))
    assert gantt(fifo) == {"A": (0, 12, (0,)), "B": (12, 32, (0,))}
    las = play(world(TRACE, cluster(1, 1)), Las(**RULES, quantum_gpu_s=10.0))
    assert attempts(las.log) == {"A": [(0, 10, (0,)), (30, 32, (0,))], "B": [(10, 30, (0,))]}


def test_two_gangs_that_fill_the_cluster_beat_one_that_does_not():
    # Each would be better off by ln(20 / 10): B and C together by twice that. FIFO starts A.
    #              0         10        20
    # GPU 0, 1     BBBBBBBBBBAAAAAAAAAA
    # GPU 2        CCCCCCCCCCAAAAAAAAAA
    # GPU 3        CCCCCCCCCC
    jobs = [Job(0, 3, 10), Job(0, 2, 10), Job(0, 2, 10)]
    run = play(world(jobs, cluster(1, 4)), themis(0.0))
    assert gantt(run) == {"A": (10, 20, (0, 1, 2)), "B": (0, 10, (0, 1)), "C": (0, 10, (2, 3))}
    fifo = play(world(jobs, cluster(1, 4)), Fifo(**RULES, skip_blocked=True))
    assert gantt(fifo)["A"] == (0, 10, (0, 1, 2))


def test_who_may_not_bid_gets_what_is_left():
    # One of four bids at a time, yet no GPU is idle while somebody waits.
    run = play(world([Job(0, 1, 10)] * 4, cluster(1, 2)), themis(0.75, round_s=20.0))
    assert run.finish_s.tolist() == [10, 10, 20, 20]


def test_rho_is_made_of_predictions():
    # As in the first test, but A outlives its prediction at 8, and at 10 is taken to have 1 s left:
    # (10 + 1) / 16 = 0.69 against B's 0.73, which passes. Predicted to take 6 s: 11 / 12, A stays.
    eight = play(world([Job(0, 1, 12, 8), Job(1, 1, 20)], cluster(1, 1)), themis(0.5))
    assert attempts(eight.log)["A"][0] == (0, 10, (0,))
    six = play(world([Job(0, 1, 12, 6), Job(1, 1, 20)], cluster(1, 1)), themis(0.5))
    assert gantt(six)["A"] == (0, 12, (0,))


def test_the_knapsack_finds_the_best_of_all_subsets():
    rng = np.random.default_rng(3)
    for _ in range(50):
        sizes, values = rng.integers(1, 6, 7), rng.uniform(0.1, 1.0, 7)
        room = int(rng.integers(0, 15))
        chosen = most_valuable(sizes, values, room)
        subsets = np.array(list(product([False, True], repeat=7)))
        fits = subsets @ sizes <= room
        assert sizes[chosen].sum() <= room
        assert values[chosen].sum() == pytest.approx((subsets @ values)[fits].max())


@pytest.mark.parametrize("knob", [-0.1, 1.0, float("nan")])
def test_a_knob_that_leaves_nobody_to_bid_is_refused(knob: float):
    with pytest.raises(GpuYardError, match=r"fairness_knob is .*from 0 to below 1"):
        themis(knob)


def test_a_lease_of_nothing_is_refused():
    with pytest.raises(GpuYardError, match=r"round_s is 0.*above 0"):
        themis(0.5, round_s=0.0)
