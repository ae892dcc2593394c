"""Bootstrap by cluster and effective numbers against hand-worked cases, and their coverage."""

import math
from itertools import product

import numpy as np
import pytest

from sim.report.job_times import (
    clustered_mean_interval,
    effective_count,
    mean_interval,
    most_coverage,
)


def test_the_effective_number_of_a_case_worked_by_hand():
    # Means 1, 5, overall 3: between 2 * 4 + 2 * 4 = 16 over 1 degree of freedom, within 4 / 2 = 2;
    # r = (16 - 2) / (16 + 2) = 7/9; 4 / (1 + 7/9) = 2.25.
    assert effective_count([0, 2, 4, 6], [0, 0, 1, 1]) == pytest.approx(2.25)
    # Sizes 3 and 1: means 2, 6, overall 3, between 3 * 1 + 1 * 9 = 12, within 2 / 2 = 1,
    # m0 = (4 - 10 / 4) / 1 = 1.5, r = 11 / 12.5 = .88, m = 2.5; 4 / (1 + 1.5 * .88) = 1.7241.
    assert effective_count([1, 2, 3, 6], [7, 7, 7, 2]) == pytest.approx(1.724138, abs=1e-6)
    assert effective_count([1, 1, 5, 5], [0, 0, 1, 1]) == pytest.approx(2)  # r = 1
    assert effective_count([1, 5, 1, 5], [0, 0, 1, 1]) == 4  # r below 0 counts as 0
    assert effective_count([3, 3, 3, 3], [0, 0, 1, 1]) == 4
    assert effective_count([1, 2, 9], [0, 1, 2]) == 3  # nothing is shared
    assert math.isnan(effective_count([1, 2, 3], [4, 4, 4]))  # of one cluster nobody can tell


def test_the_interval_is_the_quantiles_of_all_resamples_widened_as_t_is():
    values, clusters = [1.0, 2.0, 6.0, 8.0, 3.0, 7.0], [0, 0, 1, 1, 1, 2]
    sums, sizes = np.array([3.0, 17.0, 7.0]), np.array([2, 3, 1])
    draws = [list(each) for each in product(range(3), repeat=3)]
    means = sorted(sums[each].sum() / sizes[each].sum() for each in draws)
    interval = clustered_mean_interval(values, clusters, 0.6)  # three can reach 0.75
    low, high = np.quantile(means, [0.2, 0.8], method="inverted_cdf")
    assert interval.centre == pytest.approx(4.5)
    wider = 1.060660 / 0.841621 * math.sqrt(3 / 2)  # quantiles of t with 2 degrees, and normal
    ends = 4.5 - wider * (4.5 - low), 4.5 + wider * (high - 4.5)
    assert (interval.low, interval.high) == pytest.approx(ends)
    assert (interval.count, interval.clusters) == (6, 3)
    assert interval == clustered_mean_interval(values, clusters, 0.6)  # seeded


def test_two_clusters_span_the_range_of_their_means_and_t_over_values():
    pairs = np.log([0.5, 0.5, 1.0, 1.0])
    interval = clustered_mean_interval(pairs, [0, 0, 1, 1], 0.95).exp()
    assert interval.centre == pytest.approx(math.sqrt(0.5))
    logs = mean_interval(pairs, 0.95)
    assert (interval.low, interval.high) == pytest.approx((math.exp(logs.low), math.exp(logs.high)))
    many = clustered_mean_interval(np.repeat(pairs, 3), [0] * 6 + [1] * 6, 0.95).exp()
    assert (many.low, many.high) == (pytest.approx(0.5), pytest.approx(1.0))  # t is narrower
    assert interval.effective == pytest.approx(2)


def test_one_cluster_falls_back_on_its_values_and_is_marked():
    interval = clustered_mean_interval([1, 2, 3, 4, 5], [8] * 5, 0.95)
    plain = mean_interval([1, 2, 3, 4, 5], 0.95)
    assert (interval.low, interval.high) == (plain.low, plain.high)
    assert interval.clusters == 1 and math.isnan(interval.effective)
    assert math.isnan(clustered_mean_interval([1.0], [0], 0.95).low)


def test_clusters_widen_an_interval_and_cover_where_values_alone_do_not():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(15), 8)
    covered, plain = [], []
    for _ in range(300):
        values = rng.normal(size=15)[clusters] + rng.normal(0, 0.5, size=120)
        by_cluster = clustered_mean_interval(values, clusters, 0.95)
        alone = mean_interval(values, 0.95)
        covered.append(by_cluster.low <= 0 <= by_cluster.high)
        plain.append(alone.low <= 0 <= alone.high)
    assert np.mean(covered) > 0.92
    assert np.mean(plain) < 0.6


def test_eight_windows_cover_as_often_as_they_say():
    rng = np.random.default_rng(3)
    each = [clustered_mean_interval(rng.normal(size=8), range(8), 0.95) for _ in range(600)]
    assert np.mean([one.low <= 0 <= one.high for one in each]) > 0.925  # t: 0.95; percentiles: 0.88


def test_few_clusters_cannot_reach_a_confidence():
    assert [most_coverage(count) for count in (1, 2, 3, 6)] == [0, 0.5, 0.75, 0.96875]
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(2000, 3))
    inside = (samples.min(axis=1) <= 0) & (samples.max(axis=1) >= 0)
    assert np.mean(inside) == pytest.approx(most_coverage(3), abs=0.03)


@pytest.mark.parametrize(
    ("values", "clusters", "confidence", "words"),
    [([1.0], [1, 2], 0.95, "1 values in 2"), ([], [], 0.95, "at least one"),
     ([1.0, 2.0], [0, 1], 95, "like 0")],
)  # fmt: skip
def test_impossible_questions_are_refused(values, clusters, confidence, words):
    with pytest.raises(ValueError, match=words):
        clustered_mean_interval(values, clusters, confidence)
