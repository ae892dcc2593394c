"""The table of arms: who is divided by whom, by hand."""

import csv
import io
import math

import numpy as np
import pytest
from pytest import approx

from sim.files import ReportError
from sim.report.arms import arm_rows, arms_csv, arms_markdown, seed_arms
from sim.report.job_times import mean_interval
from sim.report.league import LeagueRun

HOURS = {  # one window's mean JCT by GPU type
    "p100": {"a@none": 4.0, "a@learned": 3.0, "b@none": 8.0, "b@oracle": 4.0, "plain": 9.0},
    "v100": {"a@none": 4.0, "a@learned": 1.0, "b@oracle": 4.0},
}


@pytest.fixture
def runs(make):
    """Two windows, one three times as long as the other, which pairing takes away."""
    return [
        LeagueRun(cell, "w", make.row(name, hours * factor, window=window))
        for cell, found in HOURS.items()
        for window, factor in enumerate((1.0, 3.0))
        for name, hours in found.items()
    ]


def test_arms_are_divided_by_the_same_schedulers_arm_in_the_same_cell(runs):
    rows = arm_rows(runs, references=["none", "oracle"], confidence=0.95)
    assert [(row.cell, row.scheduler, row.arm) for row in rows] == [
        ("p100", "a", "none"), ("p100", "a", "learned"), ("p100", "b", "none"),
        ("p100", "b", "oracle"), ("v100", "a", "none"), ("v100", "a", "learned"),
        ("v100", "b", "oracle"),
    ]  # fmt: skip
    over_none = [row.ratios["none"] and row.ratios["none"].centre for row in rows]
    # None: itself, and b without the arm `none` on the V100
    assert over_none == [None, approx(0.75), None, approx(0.5), None, approx(0.25), None]
    assert rows[1].ratios["none"].low == approx(0.75)  # the same in both windows
    assert rows[2].ratios["oracle"].centre == approx(2.0)
    assert rows[1].jct_s.centre == approx((3 + 9) / 2 * 3600)


def test_both_files_tell_the_same(runs):
    rows = arm_rows(runs, references=["none"], confidence=0.95)
    table = list(csv.DictReader(io.StringIO(arms_csv(rows).decode())))
    assert [row["arm"] for row in table] == [row.arm for row in rows]
    assert table[0]["over_none"] == "" and float(table[1]["over_none"]) == approx(0.75)
    assert table[1]["windows"] == "2"
    text = arms_markdown(rows, confidence=0.95)
    assert text.index("## p100") < text.index("| a | learned | 2 |") < text.index("## v100")
    assert "| 0.750 [0.750, 0.750] |" in text and "| b | oracle | 2 | 8.00 ±" in text


def test_an_arm_that_nobody_has_is_named(runs):
    with pytest.raises(ReportError, match="'truth'; the arms are none, learned, oracle"):
        arm_rows(runs, references=["truth"], confidence=0.95)
    plain = [run for run in runs if run.row.labels.scheduler == "plain"]
    with pytest.raises(ReportError, match="SCHEDULER@ARM"):
        arm_rows(plain, references=["none"], confidence=0.95)


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
