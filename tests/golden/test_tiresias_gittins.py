"""Tiresias with the Gittins index, learned from the jobs that have left."""

from typing import Any

import numpy as np
import pytest

from sim.errors import GpuYardError
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Las
from sim.schedulers.tiresias import Tiresias, TiresiasGittins, gittins_index
from sim.sharing import NoSharing
from tests.sim.worlds import Job, attempts, cluster, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
# A, B and C tell that jobs take 1 s, 1 s or 4 s; then D and E meet.
TRACE = [Job(0, 1, 1), Job(0, 1, 1), Job(0, 1, 4), Job(6, 1, 4), Job(8, 1, 2)]


def gittins(least_history: int, quantum_gpu_s: float = 1.0) -> TiresiasGittins:
    return TiresiasGittins(
        **RULES, quantum_gpu_s=quantum_gpu_s, least_history=least_history, refit_growth_frac=0.0
    )


def by_definition(quanta: np.ndarray) -> list[float]:
    """Every stretch tried for every attained service."""
    index = []
    for k in range(quanta.max()):
        left = quanta[quanta > k] - k
        chances = [
            (left <= d).mean() / np.minimum(left, d).mean() for d in range(1, left.max() + 1)
        ]
        index.append(max(chances))
    return index


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_the_best_of_all_stretches(seed: int):
    rng = np.random.default_rng(seed)
    quanta = 1 + rng.integers(0, 1 + rng.integers(1, 40), rng.integers(1, 30))
    np.testing.assert_allclose(gittins_index(quanta), by_definition(quanta), rtol=1e-12)


def test_who_is_likely_to_be_done_soon_goes_on():
    # Of 1, 1 and 4 quanta: index 2/3 with no service (two of three end at once), 1/3 with one
    # quantum (three more), 1/2 with two, 1 with three.
    # At 8 D has two quanta (1/2), E none (2/3). At 9 E has one (1/3), at 10 D has three (1).
    #         0  2   6 8 9 11 12
    # GPU 0   ABCCCCDDEDDE
    run = play(world(TRACE, cluster(1, 1)), gittins(3))
    stays = attempts(run.log)
    assert stays["D"] == [(6, 8, (0,)), (9, 11, (0,))]
    assert stays["E"] == [(8, 9, (0,)), (11, 12, (0,))]


def test_tiresias_differs():
    #         0  2   6 8 10 12     at 9 E has less service than D
    # GPU 0   ABCCCCDDEEDD
    other = Tiresias(**RULES, thresholds_gpu_s=[1, 2, 3], promote_knob=None)
    stays = attempts(play(world(TRACE, cluster(1, 1)), other).log)
    assert stays["D"] == [(6, 8, (0,)), (10, 12, (0,))]
    assert stays["E"] == [(8, 10, (0,))]


def test_before_there_is_history_it_is_las():
    trace = [*TRACE, Job(8.5, 1, 6), Job(9, 1, 3)]
    las = play(world(trace, cluster(1, 1)), Las(**RULES, quantum_gpu_s=1.0))
    few = play(world(trace, cluster(1, 1)), gittins(100))
    enough = play(world(trace, cluster(1, 1)), gittins(3))
    assert attempts(few.log) == attempts(las.log) != attempts(enough.log)


def test_more_service_than_anybody_ever_took_ranks_last():
    # Known: 1 quantum. At 4 B has three, C none; at 5 D comes, and C, which ended, took one.
    #         0 1  4 5 6    10
    # GPU 0   A BBB C D BBBB
    trace = [Job(0, 1, 1), Job(0, 1, 7), Job(4, 1, 1), Job(5, 1, 1)]
    run = play(world(trace, cluster(1, 1)), gittins(1))
    assert attempts(run.log) == {
        "A": [(0, 1, (0,))],
        "B": [(1, 4, (0,)), (6, 10, (0,))],
        "C": [(4, 5, (0,))],
        "D": [(5, 6, (0,))],
    }


def test_a_run_begins_without_memory():
    scheduler = gittins(3)
    first, second = (play(world(TRACE, cluster(1, 1)), scheduler) for _ in range(2))
    assert attempts(first.log) == attempts(second.log)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("quantum_gpu_s", 0.0, "above 0"),
        ("least_history", 0, "1 or more"),
        ("refit_growth_frac", -0.1, "0 or more"),
    ],
)
def test_bad_values_are_refused(key: str, value: Any, rule: str):
    given = {"quantum_gpu_s": 1.0, "least_history": 3, "refit_growth_frac": 0.1, key: value}
    with pytest.raises(GpuYardError, match=f"scheduler.{key} is {value}.*{rule}"):
        TiresiasGittins(**RULES, **given)
