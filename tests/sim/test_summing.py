"""Compiled sums are NumPy's."""

import numpy as np
import pytest

from sim.summing import mean, pairwise_sum


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 31, 127, 128, 129, 255, 1000, 1023, 4097, 99_991])
def test_sums_are_those_of_numpy_to_the_last_digit(count: int):
    rng = np.random.default_rng(count)
    for scale in (1.0, 1e6):
        values = rng.exponential(scale, count) ** 3
        assert pairwise_sum(values) == values.sum()
        assert mean(values) == (values.mean() if count > 0 else 0.0)


def test_what_does_not_commute_is_added_in_the_same_order():
    values = np.tile([1e16, 1.0, -1e16, 3.0, 0.1], 311)
    assert pairwise_sum(values) == values.sum()
