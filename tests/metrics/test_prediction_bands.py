"""Error bands of predictions."""

import numpy as np
import pytest

from sim.metrics.prediction_bands import prediction_bands


def test_the_shares_are_those_within_a_factor():
    duration_s = np.array([100.0] * 8)
    estimate_s = np.array([100, 110, 91, 125, 150, 66, 200, 201.0])
    bands = prediction_bands(estimate_s, duration_s)
    # 91 is 100 / 1.099; 66 is 100 / 1.515, beyond 50 % and within a factor of 2.
    assert bands.within_10_frac == 3 / 8
    assert bands.within_25_frac == 4 / 8
    assert bands.within_50_frac == 5 / 8
    assert bands.within_factor_2_frac == 7 / 8
    assert bands.beyond_frac == 1 / 8
    assert bands.median_factor == pytest.approx(np.sqrt(1.25 * 1.5))
    assert np.isnan(bands.rank_correlation)


def test_ranks_count_and_not_sizes():
    duration_s = np.array([1.0, 10.0, 100.0, 1000.0])
    assert prediction_bands(duration_s**2, duration_s).rank_correlation == pytest.approx(1.0)
    assert prediction_bands(1e6 / duration_s, duration_s).rank_correlation == pytest.approx(-1.0)


def test_what_is_shorter_than_a_second_counts_as_one():
    assert prediction_bands(np.array([0.0]), np.array([0.5])).within_10_frac == 1.0


def test_nobody_has_no_shares():
    assert np.isnan(prediction_bands(np.zeros(0), np.zeros(0)).within_10_frac)
