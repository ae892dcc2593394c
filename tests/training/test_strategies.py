"""Evolution strategies on hills that are known: they climb, in whatever order, despite noise."""

import numpy as np
import pytest

from gpuyard.training import strategies
from gpuyard.training.strategies import (
    CLIP,
    Climb,
    ascend,
    begin,
    gradient,
    members,
    noise,
    step_at,
)
from sim.arrays import FloatArray

PAIRS, FIRST, LAST = 24, 0.15, 0.15 * strategies.LAST_SHARE
TOP = np.linspace(-2.0, 2.0, 12)


def start(seed: int = 0) -> Climb:
    return begin(np.zeros(12), np.full(12, 0.3), seed)


def height(x: FloatArray) -> float:
    return float(np.sum((x - TOP) ** 2))


def differences(climb: Climb, noise_of_windows: float = 0.0) -> list[float]:
    """Second member - first, each on its pair's window, whose noise both have."""
    found = []
    for pair in range(PAIRS):
        window = np.random.default_rng(strategies.drawn_window(climb, pair, 1000)).normal()
        one, other = (height(x) + noise_of_windows * window for x in members(climb, pair))
        found.append(other - one)
    return found


def climbed(updates: int, noise_of_windows: float = 0.0) -> Climb:
    climb = start()
    for update in range(updates):
        along = gradient(climb, range(PAIRS), differences(climb, noise_of_windows))
        climb = ascend(climb, along, step_at(update / updates, FIRST))
    return climb


def test_they_climb_a_quadratic_and_the_average_is_nearer_than_members():
    climb = climbed(150)
    assert height(climb.mean) < 0.02 * height(np.zeros(12))
    assert height(climb.average) < 0.02 * height(np.zeros(12))


def test_the_order_of_pairs_changes_nothing():
    climb = start()
    told = differences(climb)
    order = np.random.default_rng(1).permutation(PAIRS)
    shuffled = gradient(climb, order.tolist(), [told[pair] for pair in order])
    assert np.array_equal(shuffled, gradient(climb, range(PAIRS), told))


def test_what_a_window_does_to_both_members_cancels():
    # The noise of a window is a million times a difference: unpaired it would drown everything.
    assert height(climbed(150, noise_of_windows=1e6).mean) == pytest.approx(
        height(climbed(150).mean), abs=0.05
    )


def test_members_mirror_each_other_and_are_drawn_from_seed_update_and_pair():
    climb = start(seed=3)
    one, other = members(climb, 5)
    assert np.allclose(one + other, 2 * climb.mean)
    assert np.allclose(one - climb.mean, climb.sigma * noise(climb, 5))
    assert not np.array_equal(noise(climb, 5), noise(climb, 6))
    assert not np.array_equal(noise(climb, 5), noise(start(seed=4), 5))
    later = ascend(climb, np.ones(12), 0.1)
    assert not np.array_equal(noise(climb, 5), noise(later, 5))


def test_one_wild_window_counts_no_more_than_the_clip():
    climb = start()
    told = [1.0, -1.0] * (PAIRS // 2)
    wild = [1e9, *told[1:]]
    spread = float(np.std(wild))
    rest = gradient(climb, range(PAIRS), wild) - CLIP * noise(climb, 0) / PAIRS
    assert np.abs(rest).max() < 10 / spread


def test_a_member_whose_run_failed_counts_as_the_clip_and_two_count_nothing():
    climb, told = start(), [1.0, -1.0] * (PAIRS // 2)
    failed = [float("inf"), float("nan"), *told[2:]]
    others = gradient(climb, range(2, PAIRS), told[2:]) * (PAIRS - 2)
    expected = (others + CLIP * noise(climb, 0)) / PAIRS
    assert np.allclose(gradient(climb, range(PAIRS), failed), expected)
    alone = gradient(climb, [0, 1], [float("-inf"), float("nan")])
    assert np.allclose(alone, -CLIP * noise(climb, 0) / 2)


def test_steps_are_in_units_of_sigma_and_fall():
    sigma = np.array([0.1, 1.0, 0.0])
    climb = ascend(begin(np.zeros(3), sigma, 0), np.array([5.0, -0.01, 1.0]), 0.15)
    assert climb.mean == pytest.approx([0.015, -0.15, 0.0], rel=1e-4)  # Adam's first step
    assert [step_at(share, FIRST) for share in (0.0, 1.0, 7.0)] == [FIRST, LAST, LAST]


def test_the_average_is_that_of_late_means():
    climb, means = start(), []
    for _ in range(40):
        climb = ascend(climb, np.ones(12), 0.1)
        means.append(climb.mean[0])
    k = np.arange(1, 41)
    weights = k * (k + 1) * (k + 2)
    assert climb.average[0] == pytest.approx(np.average(means, weights=weights), rel=1e-12)
    cubes = np.average(means, weights=k**strategies.AVERAGE_POWER)
    assert climb.average[0] == pytest.approx(cubes, rel=0.02)


def test_a_search_that_cannot_begin_or_counts_a_pair_twice_is_refused():
    for sigma in (np.zeros(3), np.full(2, -1.0)):
        with pytest.raises(ValueError, match="sigma"):
            begin(np.zeros(2), sigma, 0)
    with pytest.raises(ValueError, match="twice"):
        gradient(start(), [1, 1], [0.0, 1.0])
