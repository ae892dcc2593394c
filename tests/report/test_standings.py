"""Grouping, intervals, pairing, and the table's text."""

import csv
import io
import math

import numpy as np
import pytest
from rich.console import Console

from sim.files import ComparisonRow, ReportError
from sim.report.comparison_report import write_comparison
from sim.report.figure_studies import league_heat, rank_figure
from sim.report.job_times import Interval
from sim.report.league import (
    LeagueRun,
    default_reference,
    league_csv,
    league_note,
    league_of,
    league_rows,
    league_text,
    rank_in_common,
    rank_over_all,
)
from sim.report.page_table import Claim, claims_csv, claims_markdown, measured
from sim.report.significance import (
    correct_for_many,
    critical_difference,
    insignificant_stretches,
    paired_tests,
    ranking,
)
from sim.report.standings import best_of, standings
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


def test_seeds_count_where_there_is_one_window_and_windows_where_there_are_several(make):
    rows = [make.row("fifo", jct_h=1 + seed, seed=seed) for seed in range(4)]
    (setting,) = standings(rows, ours=None, confidence=0.95)
    interval = setting.standings[0].intervals["jct_mean_s"]
    assert interval.count == 4 and interval.centre == pytest.approx(2.5 * 3600)
    note = table_text([setting], ours=None, confidence=0.95).note
    assert "over 4 seeds of one window (of a whole file: the same jobs" in note
    rows += [make.row("fifo", window=window, seed=seed) for window in (1, 2) for seed in range(4)]
    several = standings(rows, ours=None, confidence=0.95)
    assert several[0].standings[0].intervals["jct_mean_s"].count == 3
    assert "over 3 windows (" in table_text(several, ours=None, confidence=0.95).note


def test_ratios_pair_the_windows_and_seeds_that_both_ran(make):
    slow = [make.row("a", 1 + seed, seed=seed, window=w) for seed in range(3) for w in (0, 1)]
    twin = [make.row("b", 1.0, seed=0, window=w) for w in (0, 1)]
    other = [make.row("a", 2.0, window=w) for w in (0, 1, 2)]
    later = [make.row("b", 4.0, window=w) for w in (1, 2, 3)]
    for ours, theirs, ratio in ((slow, twin, 1.0), (other, later, 0.5)):
        (setting,) = standings([*ours, *theirs], ours="a", confidence=0.95)
        (found,) = [each.ratio for each in setting.standings if each.ratio is not None]
        assert (found.centre, found.count) == (pytest.approx(ratio), 2)


@pytest.mark.parametrize("stretches", [(None, None, None), (0, 1, 2)])
def test_one_run_played_again_has_no_interval(make, stretches):
    """Of zero width it would say that other windows would be the same."""
    windows = [{"window": w, "stretch": stretch} for w, stretch in enumerate(stretches)]
    rows = [make.row("a", **each) for each in windows]
    rows += [make.row("twin", **each) for each in windows]
    rows += [make.row("b", jct_h=2 + each["window"] % 2, **each) for each in windows]
    (setting,) = standings(rows, ours="a", confidence=0.95)
    a, twin, b = setting.standings
    assert all(math.isnan(each.low) and math.isnan(each.high) for each in a.intervals.values())
    assert twin.ratio.centre == 1.0 and math.isnan(twin.ratio.low)
    assert b.ratio.high > b.ratio.low


def test_schedulers_on_other_seeds_are_told(tmp_path, make):
    """Equal numbers of runs are no equal runs."""
    rows = [make.row("a", seed=s) for s in (0, 1, 2)] + [make.row("b", seed=s) for s in (2, 3, 4)]
    write_comparison(tmp_path, rows, ours="a", confidence=0.95)
    text = (tmp_path / "comparison.md").read_text()
    assert "| 1.000 (1 pair) |" in text
    assert "Not on all windows and seeds that others ran: a (3 of 5), b (3 of 5)." in text
    apart = [row for row in rows if row.labels.seed != 2]
    write_comparison(tmp_path, apart, ours="a", confidence=0.95)
    text = (tmp_path / "comparison.md").read_text()
    assert "ours / theirs" not in text
    assert "No common window and seed with a where both" in text and "no ratio of b." in text
    write_comparison(tmp_path, [rows[2], rows[3]], ours="a", confidence=0.95)
    text = (tmp_path / "comparison.md").read_text()
    assert "pair)" not in text and "seeds that others" not in text


def test_each_setting_stands_alone_and_windows_of_two_parts_are_no_pair(make):
    found = standings([make.row("a", agents=each) for each in (1, 4)], ours="a", confidence=0.95)
    assert [s.agents for s in found] == [1, 4]
    assert found[0].title == "leaf_spine, synthetic at load 0.9, 1 agent, off"
    rows = [make.row("a", jct_h=2, part="test"), make.row("b", jct_h=4, part="train")]
    found = standings(rows, ours="a", confidence=0.95)
    assert [setting.title.rpartition(", ")[2] for setting in found] == ["part test", "part train"]
    assert [each.ratio for setting in found for each in setting.standings] == [None, None]
    assert ": no ratio of b." in table_text(found, ours="a", confidence=0.95).note
    (one,) = standings([rows[0], make.row("b", part="test")], ours="a", confidence=0.95)
    assert "part" not in one.title


def test_a_scheduler_without_a_finished_job_stands_last(make):
    gone = make.row("gone", jct_h=2, jobs_withdrawn=3)
    rows = [make.row("stuck", jct_h=math.nan, jobs_unfinished=10), make.row("fine", jct_h=3), gone]
    (setting,) = standings(rows, ours="fine", confidence=0.95)
    assert [s.scheduler for s in setting.standings] == ["gone", "fine", "stuck"]
    text = table_text([setting], ours="fine", confidence=0.95)
    assert "no ratio" not in text.note
    assert [line[0] for line in text.settings[0][1]] == ["gone *", "fine", "stuck *"]
    assert "never finished or gave up" in text.note


@pytest.mark.parametrize("jct_h", [math.nan, 0.0])
def test_runs_that_tell_nothing_still_make_a_report(tmp_path, make, jct_h):
    rows = [make.row(name, jct_h=jct_h) for name in ("a", "b")]
    write_comparison(tmp_path, rows, ours="a", confidence=0.95)
    line = (tmp_path / "comparison.md").read_text().splitlines()[4]
    shown = "-" if math.isnan(jct_h) else "0.0"
    assert line.startswith(f"| a | composite | none | {shown} |")
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


def test_a_comparison_leaves_csv_markdown_and_figure_and_says_what_was_assumed(
    tmp_path, three_schedulers
):
    folder, assumed = tmp_path / "out", ("a: b's x 2", "c: b's")
    group = write_comparison(
        folder, three_schedulers, ours="agents", confidence=0.95, assumed=assumed
    )
    console = Console(file=io.StringIO(), width=180)
    console.print(group)
    assert all(word in console.file.getvalue() for word in ("sjf", "predicted", "(ours)"))
    names = {"comparison.csv", "comparison.md", "jct_bars.png"}
    assert {path.name for path in folder.iterdir()} == names
    last = (folder / "comparison.md").read_text().splitlines()[-1]
    assert last.endswith(" Assumed: a: b's x 2; c: b's.")


def test_numbers_are_short():
    assert interval_text(Interval(123456.0, 120000.0, 126912.0, 5), 1 / 3600) == "34.3 ± 1.0"
    assert interval_text(Interval(7.2e6, math.nan, math.nan, 1), 1 / 3600) == "2000"
    assert interval_text(None, 1.0) == "-"
    assert ratio_text(Interval(0.8, 0.75, 0.853, 9)) == "0.800 [0.750, 0.853]"


# Demsar 2006, table 6: ranks of C4.5, its variants with m, with cf, with both on 14 data sets.
NAMES = ("plain", "m", "cf", "both")
PUBLISHED = np.array([
    [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5],
    [3, 2, 4, 1], [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5], [4, 2.5, 1, 2.5],
    [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
])  # fmt: skip


def test_the_published_example():
    found = ranking(NAMES, PUBLISHED, level=0.05)
    assert found.names == ("both", "m", "cf", "plain")
    assert found.mean_ranks == pytest.approx([1.964, 2.0, 2.893, 3.143], abs=5e-4)
    assert found.critical_difference == pytest.approx(2.569 * (4 * 5 / (6 * 14)) ** 0.5, abs=1e-3)
    # The paper's statistic, 9.28, is without the correction for ties: one tie of 4, three of 2.
    correction = 1 - (60 + 3 * 6) / (14 * 60)
    assert found.friedman_chi2 * correction == pytest.approx(9.28, abs=0.01)
    assert found.friedman_p < 0.05
    # Section 3.2.2: at 0.10 the difference is 2.291 sqrt(..) = 1.12, and plain differs from both.
    assert critical_difference(4, 14, level=0.10) == pytest.approx(1.12, abs=5e-3)
    # CD 1.25 at 0.05: the ends, 1.964 and 3.143, are 1.179 apart
    assert insignificant_stretches(found) == [(0, 3)]
    # CD 1.12 at 0.10: both, m, cf within 0.929; plain is 1.143 from m, 0.25 from cf
    assert insignificant_stretches(ranking(NAMES, PUBLISHED, level=0.10)) == [(0, 2), (2, 3)]
    # 3 blocks, same order everywhere: chi2 = 12 * 3 / (3 * 4) * (1 + 4 + 9 - 3 * 16 / 4) = 6
    found = ranking("abc", np.array([[1.0, 2.0, 3.0]] * 3), level=0.05)
    assert (found.friedman_chi2, found.blocks) == (pytest.approx(6.0), 3)
    assert ranking("abc", np.ones((2, 3)), level=0.05).friedman_p == 1.0


@pytest.mark.parametrize(
    ("names", "scores", "level", "told"),
    [("abc", np.full((2, 3), np.nan), 0.05, "missing"), ("abc", np.ones((2, 3)), 5.0, "is 5")],
)  # fmt: skip
def test_what_cannot_be_ranked(names, scores, level, told):
    with pytest.raises(ReportError, match=told):
        ranking(names, scores, level=level)


@pytest.mark.parametrize("scores", [np.ones((3, 2)), np.ones((1, 3)), np.ones((0, 3))])
def test_too_few_to_be_ranked_have_no_ranks(scores):
    assert ranking("abc"[: scores.shape[1]], scores, level=0.05) is None


@pytest.fixture
def runs(make):
    """Two cells of one trace and one of another, 3 windows; `few` ran on one window only.

    fast : slow : lazy = 1 : 2 : 4 everywhere, times a factor of the window; few = 0.5.
    """
    told = {"fast": "predicted", "few": "oracle"}
    return [
        LeagueRun(cell, workload, make.row(
            name, times * (window + 1), window=window, load=load, workload=workload,
            information=told.get(name, "none")))
        for cell, workload, load in (("v.9", "venus", .9), ("v1", "venus", 1), ("p", "philly", .9))
        for window in range(3)
        for name, times in (("fast", 1), ("slow", 2), ("lazy", 4), ("few", 0.5))
        if name != "few" or (cell == "p" and window == 0)
    ]  # fmt: skip


def test_the_table_by_information_where_windows_of_one_trace_count_once(runs):
    league = league_of(runs)
    everywhere = rank_over_all(league, level=0.05)
    assert everywhere.names == ("fast", "slow", "lazy")
    assert everywhere.blocks == 2 * 3  # not 9: two cells play the same jobs
    assert rank_in_common(league, level=0.05) is None  # one block is no evidence
    reference = default_reference(league, everywhere)
    assert reference == "fast"
    rows = league_rows(
        league, everywhere=everywhere, common=None, reference=reference, confidence=0.95
    )
    assert [row.scheduler for row in rows] == ["fast", "slow", "lazy", "few"]
    assert [row.fewer for row in rows] == [False, False, False, True]
    assert rows[1].ratio.centre == pytest.approx(2.0) and rows[1].ratio.count == 6
    assert rows[3].ratio.centre == pytest.approx(0.5) and rows[3].ratio.count == 1
    assert rows[0].jct_s.centre == pytest.approx(2 * 3600.0)
    rankings = everywhere, None
    note = league_note(rows, reference=reference, chosen=True, rankings=rankings, confidence=0.95)
    text = markdown(league_text(rows, note, confidence=0.95))
    assert text.index("## Durations: none") < text.index("slow") < text.index("## Durations: pred")
    assert all(told in text for told in ("few †", "Nemenyi", "fast, the best of these", "† lacks"))
    table = list(csv.DictReader(io.StringIO(league_csv(rows).decode())))
    assert table[3]["mean_rank"] == "" and table[3]["fewer_runs"] == "1"
    assert float(table[0]["mean_rank"]) == 1.0


def test_without_ranks_the_reference_is_the_best_by_geometric_mean(runs):
    first = [run for run in reversed(runs) if run.row.labels.window == 0 and run.cell == "p"]
    league = league_of([run for run in first if run.row.labels.scheduler != "few"])
    assert next(iter(league.runs)) == "lazy" and rank_over_all(league, level=0.05) is None
    assert default_reference(league, None) == "fast"


def test_the_best_ran_everywhere_and_has_the_least_geometric_mean():
    jct_s = {"even": {0: 3.0, 1: 3.0}, "uneven": {0: 1.0, 1: 8.0}, "few": {0: 1.0}}
    assert best_of(jct_s) == "uneven"  # the square root of 8, where the mean is 4.5
    assert best_of({"few": {0: 1.0}, "others": {1: 2.0}}) is None  # nobody ran both


def test_as_many_runs_on_other_cells_are_marked_and_twice_at_one_place_is_refused(runs):
    kept = {"fast": "v.9", "slow": "v1"}
    league = league_of([run for run in runs if kept.get(run.row.labels.scheduler) == run.cell])
    rows = league_rows(league, everywhere=None, common=None, reference="fast", confidence=0.95)
    assert [(row.runs, row.fewer) for row in rows] == [(3, True), (3, True)]
    with pytest.raises(ReportError, match="fast ran twice on v"):
        league_of([*runs, runs[0]])
    with pytest.raises(ReportError, match="ratio_to is 'best'"):
        league = league_of(runs)
        league_rows(league, everywhere=None, common=None, reference="best", confidence=0.95)


def test_figures_are_drawn(runs, tmp_path):
    league = league_of(runs)
    found = rank_over_all(league, level=0.05)
    information = {name: league.labels(name).information for name in found.names}
    rank_figure(found, information=information, path=tmp_path / "ranks.png")
    league_heat(
        league, names=list(league.runs), cells=["v.9", "v1", "p"], path=tmp_path / "heat.png"
    )
    for name in ("ranks.png", "heat.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_claims_stand_beside_what_was_measured(runs):
    claims = [
        Claim("JCT against slow", "fast", "slow", "jct_mean_s", 0.69),
        Claim("JCT of fast", "fast", None, "jct_mean_s", "2 h"),
        Claim("few against slow", "few", "slow", "jct_mean_s", 0.5),
    ]
    rows = measured(claims, runs, confidence=0.95)
    assert [(row.claim.what, row.cell) for row in rows[:4]] == [
        ("JCT against slow", cell) for cell in ("all", "v.9", "v1", "p")
    ]
    assert rows[0].interval.centre == pytest.approx(0.5)  # half of slow's: saves 50 %
    assert rows[0].interval.count == 6 and rows[1].interval.count == 3  # windows, not runs
    assert rows[4].interval.centre == pytest.approx(7200.0)
    assert rows[9].interval is None  # few did not run in v.9
    assert "| JCT against slow | all | 0.69 | 50% [50%, 50%] |" in claims_markdown(rows)
    assert claims_csv(rows).decode().splitlines()[1].startswith("JCT against slow,fast,slow,")
    with pytest.raises(ReportError, match="no run of nobody"):
        measured([Claim("x", "nobody", None, "jct_mean_s", 1)], runs, confidence=0.95)
    with pytest.raises(ReportError, match="no metric 'jct'"):
        measured([Claim("x", "fast", None, "jct", 1)], runs, confidence=0.95)


def test_a_zero_has_no_ratio_but_a_saving(make):
    runs = [LeagueRun("c", "w", make.row(name, hours)) for name, hours in (("a", 0.0), ("b", 4.0))]
    (row,) = measured([Claim("x", "a", "b", "jct_mean_s", 1.0)], runs, confidence=0.95)
    assert row.interval.centre == 1.0 and np.isnan(row.interval.low)


def test_pairs_are_of_one_window_and_holm_corrects_for_the_baselines(make):
    told = {  # windows and their TFLOPS
        "ours": ("ours", {0: 20.0, 1: 42.0}), "a": ("published", {1: 20.0, 0: 10.0}),
        "b": ("published", {0: 20.0, 1: 42.0}), "c": ("reference", {0: 10.0, 1: 10.0}),
    }  # fmt: skip
    rows = {
        name: [ComparisonRow(make.labels(name, role=role, window=window), {"tflops": tflops})
               for window, tflops in each.items()]
        for name, (role, each) in told.items()
    }  # fmt: skip
    found = paired_tests("c", rows, ours="ours", metric="tflops", confidence=0.95)
    assert not any("p_holm" in test for test in found)
    correct_for_many([test for test in found if test["role"] == "published"])
    against = {test["against"]: test for test in found}
    assert against["a"]["ratio"] == pytest.approx((2.0 * 2.1) ** 0.5)
    assert against["b"]["ratio"] == pytest.approx(1.0)
    assert against["a"]["p_holm"] == pytest.approx(2 * against["a"]["p"])
    assert "p_holm" not in against["c"]


def test_a_rival_that_is_equal_everywhere_spoils_no_other_test(make):
    told = {"ours": [2.0, 3.0, 4.0], "same": [2.0, 3.0, 4.0], "worse": [1.0, 1.51, 2.02]}
    rows = {
        name: [ComparisonRow(make.labels(name, window=w), {"tflops": t})
               for w, t in enumerate(each)]
        for name, each in told.items()
    }  # fmt: skip
    found = paired_tests("c", rows, ours="ours", metric="tflops", confidence=0.95)
    alone = {**found[0], "p": float("nan")}  # a single pair
    correct_for_many([*found, alone])
    same, worse = found
    assert same["p"] == same["p_holm"] == 1.0
    assert 0.01 > worse["p_holm"] == pytest.approx(2 * worse["p"])
    assert np.isnan(alone["p_holm"])


def judged(make, observed) -> dict[str, float]:
    """What is told of ours, (labels, TFLOPS), beside a rival that is at 1 everywhere."""
    rows = {
        name: [ComparisonRow(make.labels(name, **at), {"tflops": t**power}) for at, t in observed]
        for name, power in (("ours", 1.0), ("theirs", 0.0))
    }
    (found,) = paired_tests("c", rows, ours="ours", metric="tflops", confidence=0.95)
    return {key: found[key] for key in ("pairs", "ratio", "low", "high", "p")}


def test_windows_of_one_stretch_of_time_are_one_observation(make):
    def of(*stretches):
        told = enumerate(zip(stretches, [2.0, 4.0, 8.0] * 2, strict=False))
        return judged(make, [({"window": w, "stretch": s}, t) for w, (s, t) in told])

    twice = of(0, 1, 2, 0, 1, 2)
    assert twice == pytest.approx(of(None, None, None) | {"pairs": 6})
    assert twice["p"] > 5 * of(*[None] * 6)["p"]


def test_seeds_of_one_window_are_one_observation(make):
    def of(*windows):
        told = [(w, s, t) for w, each in enumerate(windows) for s, t in enumerate(each)]
        return judged(make, [({"window": w, "seed": s}, t) for w, s, t in told])

    once = of([2.0], [4.0], [8.0])
    assert of([1.9, 2.1], [3.9, 4.1], [8.0, 8.0]) == pytest.approx(once)
    assert of([2.0, 4.0, 8.0]) == pytest.approx(once)  # of one window seeds are all there is
