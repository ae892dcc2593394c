"""Intervals against values of a t table, and their coverage."""

import math

import numpy as np
import pytest

from sim.metrics.timeline import mean_interval, ratio_interval


def test_a_mean_interval_is_students():
    # mean 3, sd sqrt(2.5), t(0.975, 4) = 2.776
    interval = mean_interval([1, 2, 3, 4, 5], 0.95)
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert (interval.centre, interval.count) == (3.0, 5)
    assert (interval.low, interval.high) == pytest.approx((3 - half, 3 + half))


def test_95_percent_intervals_cover_the_truth_95_percent_of_the_time():
    rng = np.random.default_rng(1)
    samples = [mean_interval(rng.normal(7, 2, size=6), 0.95) for _ in range(1000)]
    covered = np.mean([s.low <= 7 <= s.high for s in samples])
    assert 0.93 <= covered <= 0.97


def test_pairing_sees_a_ratio_that_the_windows_hide():
    windows = np.array([10.0, 100.0, 1000.0, 50.0])
    interval = ratio_interval(windows * np.array([0.79, 0.80, 0.81, 0.80]), windows, 0.95)
    assert interval.centre == pytest.approx(0.8, abs=1e-3)
    assert 0.77 < interval.low < interval.high < 0.83


def test_one_value_has_no_interval():
    assert math.isnan(mean_interval([4.0], 0.95).low)
    assert math.isnan(ratio_interval([1.0], [2.0], 0.95).high)


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [([1.0], [1.0, 2.0], "equally many"), ([0.0], [1.0], "above 0"), ([], [], "at least one")],
)
def test_impossible_pairs_are_refused(ours, theirs, words):
    with pytest.raises(ValueError, match=words):
        ratio_interval(ours, theirs, 0.95)


def test_a_percentage_is_not_a_confidence():
    with pytest.raises(ValueError, match="like 0"):
        mean_interval([1.0, 2.0], 95)
