"""One policy against each kind of rival, and the bootstrap by cluster, by hand."""

import csv
import io
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from pytest import approx

from sim.files import ReportError
from sim.report import headline
from sim.report.job_times import (
    clustered_mean_interval,
    effective_count,
    log_ratios,
    mean_interval,
    most_coverage,
)
from sim.report.table_text import markdown

STEAL, LATE, ROUTED = "sjf+consolidated+steal", "fifo+consolidated+steal", "sjf+packed+own"
RIVALS = {  # hours on the windows of the result, on those of the choice
    (STEAL, "composite"): ((4.0, 4.0), (9.0, 9.0)),
    (LATE, "composite"): ((2.0, 32.0), (6.0, 6.0)),
    (ROUTED, "composite"): ((10.0, 10.0), (12.0, 12.0)),
    ("sjf+consolidated", "global_queue"): ((3.0, 3.0), (3.0, 3.0)),
    ("linear_score", "global_queue"): ((1.0, 1.0), (1.0, 1.0)),
    ("linear_score", "linear_score"): ((2.0, 4.0), (2.0, 2.0)),
    ("tetris+packed+own", "published"): ((20.0, 40.0), (1.0, 1.0)),
}
PARTS = ("validation", "test")


def rows_of(make, place, rivals=RIVALS, **labels):
    return [
        make.row(name, hours, role=role, window=window, **labels,
                 **({"agents": 1} if role == "global_queue" else {}))
        for (name, role), parts in rivals.items()
        for window, hours in enumerate(parts[place])
    ]  # fmt: skip


@pytest.fixture
def results(make):
    """Ours takes 2 and 4 hours with 2 agents."""
    ours = [make.row("marl", 2.0 + 2 * window, role="ours", window=window) for window in (0, 1)]
    return [*ours, *rows_of(make, 0)]


def lines_of(results, picking, ours="marl"):
    (cell,) = headline.headline_cells(results, picking, ours=ours, parts=PARTS, confidence=0.95)
    return {(line.against, line.picked_on): line for line in cell.lines}


def test_the_best_are_chosen_on_their_own_windows_and_on_those_of_the_result(make, results):
    found = lines_of(results, rows_of(make, 1))
    chosen = {key: line.scheduler for key, line in found.items()}
    assert chosen == {
        ("ours", ""): "marl",
        ("best composite", "validation"): LATE,  # 6 hours against 9
        ("best composite", "test"): STEAL,  # geometric means 4 and 8
        ("best routed at arrival", "validation"): ROUTED,
        ("best routed at arrival", "test"): ROUTED,
        ("best global queue", "validation"): "sjf+consolidated",  # the linear score stands alone
        ("best global queue", "test"): "sjf+consolidated",
        ("linear score", ""): "linear_score",
        ("linear score, one queue", ""): "linear_score",
        ("published", ""): "tetris+packed+own",  # no composition, however good
    }
    ratios = {key: line.ratio.centre for key, line in found.items() if line.ratio}
    assert ratios[("best composite", "test")] == approx((0.5 * 1.0) ** 0.5)
    assert ratios[("best composite", "validation")] == approx((1.0 * 0.125) ** 0.5)
    assert ratios[("linear score", "")] == approx(1.0)
    assert ratios[("linear score, one queue", "")] == approx(8.0**0.5)
    published = found["published", ""].ratio
    assert published.centre == approx(0.1) and published.high == approx(0.1)  # paired by window
    assert found["ours", ""].ratio is None


def test_without_windows_for_the_choice_whole_runs_of_the_result_alone_choose(make, results):
    lucky = make.row("lucky+consolidated+steal", 0.1, window=0)  # not on every window
    stuck = [make.row("stuck+x+steal", 0.0, window=window, jobs_unfinished=9) for window in (0, 1)]
    found = lines_of([*results, lucky, *stuck], [])
    assert {part for against, part in found if "best" in against} == {"test"}
    assert found["best composite", "test"].scheduler == STEAL


def test_the_best_averages_seeds_within_windows_as_ratios_do(make):
    """Uneven: 5 hours on both windows, the mean of 1 and 9; as logs of four runs 3.9, below 4.5."""
    hours = {"marl": (1, 1, 1, 1), STEAL: (1, 9, 5, 5), LATE: (4.5, 4.5, 4.5, 4.5)}
    rows = [
        make.row(name, jct, role="ours" if name == "marl" else "composite", window=w, seed=s)
        for name, each in hours.items()
        for jct, (w, s) in zip(each, product((0, 1), repeat=2), strict=True)
    ]
    for picking in ([], rows):
        found = lines_of(rows, picking)
        assert {line.scheduler for key, line in found.items() if key[1]} == {LATE}
        assert found["best composite", "test"].ratio.centre == approx(1 / 4.5)


def test_a_composition_can_be_ours_and_is_then_no_rival(make, results):
    found = lines_of(results, rows_of(make, 1), ours=STEAL)
    assert found["ours", ""].scheduler == STEAL
    assert found["best composite", "test"].scheduler == LATE
    assert found["policy", ""].scheduler == "marl"


def test_settings_with_other_numbers_of_agents_choose_on_their_own(make, results):
    more = rows_of(make, 0, {(LATE, "composite"): ((1.0, 1.0),)}, agents=8)
    more += [make.row("marl", 3.0, role="ours", agents=8, window=window) for window in (0, 1)]
    two, eight = headline.headline_cells(
        [*results, *more], [], ours="marl", parts=PARTS, confidence=0.95
    )  # fmt: skip
    assert (two.setting[3], eight.setting[3]) == (2, 8)
    named = {line.against: line for line in eight.lines}
    assert named["best composite"].scheduler == LATE
    assert named["best composite"].ratio.centre == approx(3.0)
    assert named["best global queue"].ratio.centre == approx(1.0)  # the queue bounds both


def test_one_queue_has_no_fairness_between_partitions(make):
    def waits(row):
        return replace(row, metrics={**row.metrics, "partition_wait_jain": 0.5})

    rows = [waits(make.row("marl", 1.0, role="ours", agents=4)),
            waits(make.row("sjf+consolidated", 1.0, role="global_queue", agents=1))]  # fmt: skip
    found = lines_of(rows, [])
    assert found["ours", ""].means["partition_wait_jain"].centre == 0.5
    assert "partition_wait_jain" not in found["best global queue", "test"].means


def test_windows_of_one_stretch_are_no_independent_evidence(make):
    hours = {"marl": (1.0, 2.0, 1.0, 2.0), STEAL: (2.0, 8.0, 2.0, 8.0)}
    rows = [
        make.row(name, jct_h, role="ours" if name == "marl" else "composite", window=window,
                 stretch=window % 2)
        for name, found in hours.items()
        for window, jct_h in enumerate(found)
    ]  # fmt: skip
    cells = headline.headline_cells(rows, [], ours="marl", parts=PARTS, confidence=0.95)
    ratio = cells[0].lines[1].ratio
    assert ratio.centre == approx(8.0**-0.5)
    # A stretch drawn twice: 0.25 to 0.5; t over the four windows is wider, 0.354 / and x 1.89.
    assert (ratio.low, ratio.high) == (approx(0.18703, rel=1e-4), approx(0.66836, rel=1e-4))
    short = headline.summary_text(cells, confidence=0.95).settings[0][1][0]
    assert short[1] == "4 of 2 stretches" and short[3] == "0.354 [0.187, 0.668] †"
    table = list(csv.DictReader(io.StringIO(headline.headline_csv(cells).decode())))
    assert [row["stretches"] for row in table] == ["2", "2"]
    assert float(table[1]["effective_windows"]) == approx(2.0)


def test_ours_must_be_there(results):
    with pytest.raises(ReportError, match=r"ours is 'mral'; the schedulers here are marl, sjf"):
        headline.headline_cells(results, [], ours="mral", parts=PARTS, confidence=0.95)


def test_the_files_say_the_same(make, results, tmp_path):
    cells = headline.headline_cells(
        results, rows_of(make, 1), ours="marl", parts=PARTS, confidence=0.95
    )
    headline.write_headline(tmp_path, cells, title="In full", confidence=0.95)
    text = (tmp_path / "headline.md").read_text()
    table = list(csv.DictReader(io.StringIO((tmp_path / "headline.csv").read_text())))
    assert (tmp_path / "headline.csv").read_bytes() == headline.headline_csv(cells)
    best = next(row for row in table if row["picked_on"] == "test")
    assert (best["against"], best["scheduler"], best["windows"]) == ("best composite", STEAL, "2")
    assert float(best["ratio"]) == approx(0.5**0.5)
    assert f"{float(best['ratio']):.3f} [{float(best['ratio_low']):.3f}" in text
    assert table[0]["against"] == "ours" and table[0]["ratio"] == ""
    assert float(table[0]["jct_p99_s"]) == approx(5 * 3 * 3600)
    assert text.startswith("# In full\n")
    short = markdown(headline.summary_text(cells, confidence=0.95))
    assert short in text
    assert "best composite [validation] | best composite [test]" in short
    assert short.count("leaf_spine, synthetic at load 0.9, 2 agents") == 1


@pytest.mark.parametrize(
    ("scheduler", "role", "at_arrival"),
    [
        ("sjf+consolidated+selective1.2+own_then_least_loaded", "composite", True),
        ("sjf+consolidated+selective1.2+steal", "composite", False),
        ("sjf+consolidated+selective1.2", "composite", False),
        ("tetris+worst_fit+always+own", "published", False),
    ],
)
def test_routing_is_read_from_the_name(make, scheduler, role, at_arrival):
    assert headline.routes_at_arrival(make.labels(scheduler, role=role)) == at_arrival


def test_ratios_over_fewer_windows_are_told(results):
    rows = [row for row in results if row.labels.role in ("ours", "linear_score")][1:]
    (cell,) = headline.headline_cells(rows, [], ours="marl", parts=PARTS, confidence=0.95)
    ((_, table),) = headline.whole_text([cell], confidence=0.95).settings
    assert [row[3] for row in table] == ["(ours)", "1.000 (1 pair)"]


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
    ("interval", "given", "words"),
    [(clustered_mean_interval, ([1.0], [1, 2], 0.95), "1 values in 2"),
     (clustered_mean_interval, ([], [], 0.95), "at least one"),
     (clustered_mean_interval, ([1.0, 2.0], [0, 1], 95), "like 0"),
     (mean_interval, ([], 0.95), "at least one"),
     (mean_interval, ([1.0, 2.0], 95), "like 0"),
     (log_ratios, ([1.0], [1.0, 2.0]), "equally many"),
     (log_ratios, ([0.0], [1.0]), "above 0")],
)  # fmt: skip
def test_impossible_questions_are_refused(interval, given, words):
    with pytest.raises(ValueError, match=words):
        interval(*given)
