"""Arms with seeds, over one of them, by hand."""

import math

import numpy as np
import pytest
from pytest import approx

from sim.metrics.timeline import mean_interval
from sim.report.arms import seed_arms
from sim.report.atomic import ReportError

WHOLE = np.array([[100.0, 400.0], [200.0, 100.0]])  # 2 seeds, 2 windows


def test_ratios_are_paired_by_window_and_seed():
    half, rule = WHOLE * [[0.5], [2.0]], np.array([[100.0, 100.0]])
    jct_s = {"whole": WHOLE, "half": half, "rule": rule}
    whole, other, fixed = seed_arms(jct_s, whole="whole", confidence=0.95)
    assert (whole.ratio.centre, whole.by_seed, whole.jct_s) == (1.0, (1.0, 1.0), 200.0)
    assert other.by_seed == approx((0.5, 2.0))
    assert (other.ratio.centre, other.ratio.low, other.ratio.high) == approx((1.0, 1.0, 1.0))
    assert (other.seeds, other.ratio.count) == (2, 2)
    # 100 over 100 and 400, and over 200 and 100: ratios 1, 1/4; 1/2, 1
    assert fixed.by_seed == approx((0.5, math.sqrt(0.5)))
    assert (fixed.seeds, fixed.ratio.centre) == (1, approx((1 / 8) ** 0.25))


def test_the_interval_is_over_windows_after_seeds_are_averaged():
    arm = WHOLE * [[1.0, 2.0], [1.0, 8.0]]  # window 0: 1; window 1: 4
    _, found = seed_arms({"whole": WHOLE, "arm": arm}, whole="whole", confidence=0.95)
    logs = mean_interval([0.0, math.log(4.0)], 0.95)
    assert found.ratio.centre == approx(2.0)
    assert (found.ratio.low, found.ratio.high) == approx((math.exp(logs.low), math.exp(logs.high)))


@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_other_windows_or_seeds_are_named(shape):
    with pytest.raises(ReportError, match=rf"arm arm: {shape[0]} seeds of {shape[1]} windows"):
        seed_arms({"whole": WHOLE, "arm": np.ones(shape)}, whole="whole", confidence=0.95)
