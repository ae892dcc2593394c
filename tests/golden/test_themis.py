"""Finish-time fairness by auction."""

from itertools import product

import numpy as np
import pytest

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, Las
from sim.schedulers.themis import Themis, most_valuable
from sim.sharing import NoSharing
from tests.sim.worlds import Job, as_drawn, charted, cluster

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
FIFO = Fifo(**RULES, skip_blocked=True)


def themis(fairness_knob: float, round_s: float = 10.0) -> Themis:
    return Themis(placer=FirstFit(), round_s=round_s, fairness_knob=fairness_knob)


TRACE = [Job(0, 1, 12), Job(1, 1, 20)]
GANGS = [Job(0, 3, 10), Job(0, 2, 10), Job(0, 2, 10)]
LARGE = [Job(0, 2, 8), *[Job(at_s, 1, 10) for at_s in (0, 0, 9, 9, 19, 19)]]
CASES = {  # what is seen -> scheduler, jobs, GPUs of the one server, the chart of each GPU
    # Half of the two bid: the one with the larger rho = (age + rest) / (2 x duration).
    # At 10: A (10 + 2) / 24 = 0.5, B (9 + 20) / 40 = 0.73. At 20: A 22 / 24, B (19 + 10) / 40.
    "the one treated worst gets the GPU": (
        themis(0.5), TRACE, 1, "AaaaaaaaaaBbbbbbbbbbAaBbbbbbbbbb"),
    # A outlives its prediction at 8, and at 10 is taken to have 1 s left: (10 + 1) / 16 = 0.69
    # against B's 0.73, which passes. Predicted to take 6 s: 11 / 12, A stays.
    "rho is made of predictions: 8 s": (
        themis(0.5), [Job(0, 1, 12, 8), TRACE[1]], 1, "AaaaaaaaaaBbbbbbbbbbAaBbbbbbbbbb"),
    "rho is made of predictions: 6 s": (
        themis(0.5), [Job(0, 1, 12, 6), TRACE[1]], 1, "AaaaaaaaaaaaBbbbbbbbbbbbbbbbbbbb"),
    # At 10 both bid: ten seconds more are ln(22 / 12) to A, ln(39 / 29) to B. A goes on.
    "where all bid the largest improvement wins": (
        themis(0.0), TRACE, 1, "AaaaaaaaaaaaBbbbbbbbbbbbbbbbbbbb"),
    "fifo lets A finish": (FIFO, TRACE, 1, "AaaaaaaaaaaaBbbbbbbbbbbbbbbbbbbb"),
    # LAS with quanta of 10 passes the GPU at 10, too, but then B has no more service and keeps it.
    "las lets B go on": (
        Las(**RULES, quantum_gpu_s=10.0), TRACE, 1, "AaaaaaaaaaBbbbbbbbbbbbbbbbbbbbAa"),
    # Each would be better off by ln(20 / 10): B and C together by twice that. FIFO starts A.
    "two gangs that fill the cluster beat one that does not": (
        themis(0.0), GANGS, 4, "BbbbbbbbbbAaaaaaaaaa*2 CcccccccccAaaaaaaaaa Cccccccccc"),
    "fifo starts the one": (
        FIFO, GANGS, 4, "AaaaaaaaaaBbbbbbbbbb*2 AaaaaaaaaaCccccccccc ..........Cccccccccc"),
    # At 0 and at 10 jobs of single GPUs bid more than A: twice ln(20 / 10) against ln(18 / 8), and
    # twice ln(21 / 11) against ln(28 / 18). At 20 the rho of A is above 1, (20 + 8) / (3 x 8): it
    # comes first, though F and G would bid as much as D and E have.
    "a gang that does worse than with its part of the cluster comes first": (
        themis(0.0), LARGE, 2,
        "BbbbbbbbbbDdddddddddAaaaaaaaFfffffffff CcccccccccEeeeeeeeeeAaaaaaaaGggggggggg"),
    # All are at 3 / 4, whatever they take: 5 / (5 x 4 / 3) is no more than 1 / (1 x 4 / 3).
    "who came first is first among equals": (
        themis(0.75), [Job(0, 1, each) for each in (1, 5, 7, 10)], 3,
        "ADddddddddd Bbbbb Ccccccc"),
    # One of four bids at a time, yet no GPU is idle while somebody waits.
    "who may not bid gets what is left": (
        themis(0.75, 20.0), [Job(0, 1, 10)] * 4, 2, "AaaaaaaaaaCccccccccc BbbbbbbbbbDddddddddd"),
}  # fmt: skip
test_the_chart_is_as_drawn = as_drawn(CASES)


def test_three_of_ten_bid_where_the_knob_is_0_7():
    # All are treated alike at 0, so the first three bid. D would win, but it is the fourth.
    jobs = [Job(0, 1, 5 if at == 3 else 30) for at in range(10)]
    found = charted(jobs, cluster(1, 3), themis(0.7), column_s=5.0)
    assert [line[0] for line in found.split()] == ["A", "B", "C"]


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


def test_of_equal_sums_the_knapsack_takes_the_one_with_earlier_items():
    # The last is worth what the first is; in binary the sum with the last comes out larger.
    values = np.log1p(4.0 / np.array([10.0, 3.0, 3.0, 3.0, 10.0]))
    taken = most_valuable(np.ones(5, dtype=np.int64), values, 4)
    assert taken.tolist() == [True, True, True, True, False]
