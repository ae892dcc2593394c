"""Grouping, intervals, pairing, and the table's text."""

import io
import math

import pytest

from sim.report.atomic import ReportError
from sim.report.comparison import HOURS, MINUTES, SECONDS, unit_for
from sim.report.comparison_report import write_comparison
from sim.report.standings import standings
from sim.report.table_text import interval_text, markdown, ratio_text, table_text


def test_schedulers_are_sorted_and_paired(three_schedulers):
    (setting,) = standings(three_schedulers, ours="agents", confidence=0.95)
    assert [s.scheduler for s in setting.standings] == ["agents", "sjf", "fifo"]
    ours, sjf, fifo = setting.standings
    assert ours.ratio is None and ours.role == "ours"
    assert sjf.ratio.centre == pytest.approx(0.8, rel=0.02)
    assert sjf.ratio.high - sjf.ratio.low < 0.04  # the windows differ six-fold, the pairs do not
    assert fifo.ratio.centre == pytest.approx(4 / 9, rel=0.02)
    assert sjf.intervals["jct_mean_s"].count == 6
    assert sjf.information == "predicted"


def test_seeds_of_one_window_are_not_counted_as_windows(make):
    rows = [
        make.row("fifo", jct_h=1 + window, window=window, seed=seed)
        for window in range(3)
        for seed in range(4)
    ]
    (setting,) = standings(rows, ours=None, confidence=0.95)
    assert setting.standings[0].intervals["jct_mean_s"].count == 3


def test_one_window_takes_intervals_over_seeds(make):
    rows = [make.row("fifo", jct_h=1 + seed, seed=seed) for seed in range(4)]
    (setting,) = standings(rows, ours=None, confidence=0.95)
    interval = setting.standings[0].intervals["jct_mean_s"]
    assert interval.count == 4 and interval.centre == pytest.approx(2.5 * 3600)


def test_ratios_use_only_windows_that_both_ran(make):
    rows = [make.row("a", jct_h=2, window=w) for w in (0, 1, 2)]
    rows += [make.row("b", jct_h=4, window=w) for w in (1, 2, 3)]
    (setting,) = standings(rows, ours="a", confidence=0.95)
    ratio = next(s.ratio for s in setting.standings if s.scheduler == "b")
    assert (ratio.centre, ratio.count) == (pytest.approx(0.5), 2)


def test_each_setting_stands_alone(make):
    rows = [make.row("a", agents=agents, jct_h=agents) for agents in (1, 4)]
    found = standings(rows, ours="a", confidence=0.95)
    assert [s.agents for s in found] == [1, 4]
    assert found[0].title == "leaf_spine, synthetic at load 0.9, 1 agent, off"


def test_a_scheduler_without_a_finished_job_stands_last(make):
    rows = [make.row("stuck", jct_h=math.nan, jobs_unfinished=10), make.row("fine", jct_h=3)]
    (setting,) = standings(rows, ours="fine", confidence=0.95)
    assert [s.scheduler for s in setting.standings] == ["fine", "stuck"]
    text = table_text([setting], ours="fine", confidence=0.95)
    assert text.settings[0][1][1][0] == "stuck *"
    assert "unfinished" in text.note


@pytest.mark.parametrize("jct_h", [math.nan, 0.0])
def test_runs_that_tell_nothing_still_make_a_report(tmp_path, make, jct_h):
    rows = [make.row(name, jct_h=jct_h) for name in ("a", "b")]
    write_comparison(tmp_path, rows, ours="a", confidence=0.95)
    line = (tmp_path / "comparison.md").read_text().splitlines()[4]
    assert line.startswith(
        "| a | composite | none | " + ("-" if math.isnan(jct_h) else "0.0") + " |"
    )
    assert (tmp_path / "jct_bars.png").stat().st_size > 1000


def test_wrong_questions_are_refused(make):
    with pytest.raises(ReportError, match="no rows"):
        standings([], ours=None, confidence=0.95)
    with pytest.raises(ReportError, match="ours is 'agent'; the schedulers here are fifo, sjf"):
        standings([make.row("fifo"), make.row("sjf")], ours="agent", confidence=0.95)


def test_the_table_states_units_information_and_ratio(three_schedulers):
    settings = standings(three_schedulers, ours="agents", confidence=0.9)
    text = table_text(settings, ours="agents", confidence=0.9)
    assert "mean JCT [h]" in text.headers and text.headers[-1] == "ours / theirs"
    lines = markdown(text).splitlines()
    assert lines[0].startswith("## leaf_spine")
    assert lines[4].startswith("| agents | ours | none | 1")
    assert lines[4].endswith("| (ours) |")
    assert lines[5].startswith("| sjf | composite | predicted |")
    assert "90%" in text.note and "over 6 windows" in text.note


def test_a_comparison_leaves_csv_markdown_and_figure(tmp_path, three_schedulers):
    from rich.console import Console

    group = write_comparison(tmp_path / "out", three_schedulers, ours="agents", confidence=0.95)
    console = Console(file=io.StringIO(), width=180)
    console.print(group)
    printed = console.file.getvalue()
    assert "sjf" in printed and "predicted" in printed and "(ours)" in printed
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "comparison.csv", "comparison.md", "jct_bars.png",
    }  # fmt: skip


def test_what_was_assumed_stands_below_the_tables(tmp_path, three_schedulers):
    write_comparison(
        tmp_path, three_schedulers, ours=None, confidence=0.95, assumed=("a: b's x 2", "c: b's")
    )
    last = (tmp_path / "comparison.md").read_text().splitlines()[-1]
    assert last.endswith(" Assumed: a: b's x 2; c: b's.")


def test_numbers_are_short_and_never_powers_of_ten():
    from sim.metrics.timeline import Interval

    assert interval_text(Interval(123456.0, 120000.0, 126912.0, 5), 1 / 3600) == "34.3 ± 1.0"
    assert interval_text(Interval(7.2e6, math.nan, math.nan, 1), 1 / 3600) == "2000"
    assert interval_text(None, 1.0) == "-"
    assert ratio_text(Interval(0.8, 0.75, 0.853, 9)) == "0.800 [0.750, 0.853]"


def test_units_follow_the_typical_value():
    assert unit_for([10.0, 20.0]) == SECONDS
    assert unit_for([600.0, math.nan]) == MINUTES
    assert unit_for([1.0, 9000.0, 1e6]) == HOURS
