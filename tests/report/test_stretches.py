"""Comparisons whose windows share stretches of time: intervals, words, files."""

from dataclasses import replace

import pytest

from sim.files import ReportError, read_comparison_csv, write_comparison_csv
from sim.report.arms import arm_rows
from sim.report.comparison_report import write_comparison
from sim.report.job_times import mean_interval
from sim.report.league import LeagueRun, league_of, league_rows, mean_over
from sim.report.page_table import Claim, measured
from sim.report.run_folder import read_labels, write_record
from sim.report.standings import standings
from sim.report.table_text import table_text


def rows_of(make, stretches, ratios):
    """Ours takes `ratios[s]` of the other's time in windows of stretch s; window w is w + 1 h."""
    found = []
    for window, stretch in enumerate(stretches):
        theirs = 1.0 + window
        ours = theirs * ratios[stretch]
        found.append(make.row("agents", ours, window=window, stretch=stretch, role="ours"))
        found.append(make.row("sjf", theirs, window=window, stretch=stretch))
    return found


def shown(rows, confidence=0.95):
    settings = standings(rows, ours="agents", confidence=confidence)
    text = table_text(settings, ours="agents", confidence=confidence)
    ((title, lines),) = text.settings
    return text, title, {line[0]: dict(zip(text.headers, line, strict=True)) for line in lines}


def test_ratios_are_bootstrapped_by_stretch_and_say_what_they_are_worth(make):
    text, title, lines = shown(rows_of(make, [0, 1] * 4, {0: 0.5, 1: 0.8}))
    assert title.endswith("off, 8 windows of 2 stretches †")
    assert lines["sjf"]["ours / theirs"] == "0.632 [0.500, 0.800] †"
    assert lines["sjf"]["effective windows"] == "2.0"  # windows of a stretch are all alike
    assert lines["agents"]["ours / theirs"] == "(ours)"
    assert "† 2 stretches are too few for such an interval" in text.note
    assert "bootstrapped by stretch" in text.note


def test_enough_stretches_are_not_called_few(make):
    ratios = {stretch: 0.5 + 0.05 * stretch for stretch in range(6)}
    text, title, lines = shown(rows_of(make, range(6), ratios))
    assert title.endswith("6 windows of 6 stretches") and "†" not in text.note
    assert lines["sjf"]["effective windows"] == "6.0"


def test_one_stretch_is_marked(make):
    rows = rows_of(make, [0] * 4, {0: 0.5})
    text, title, lines = shown(rows)
    assert title.endswith("4 windows of 1 stretch †")
    assert lines["sjf"]["ours / theirs"] == "0.500 [0.500, 0.500] †"
    assert lines["sjf"]["effective windows"] == "-"
    assert "† 1 stretch: " in text.note and "t interval" in text.note


def test_random_windows_are_shown_as_ever(three_schedulers):
    text, title, _ = shown(three_schedulers)
    assert title == "leaf_spine, synthetic at load 0.9, 2 agents, off"
    assert text.headers[-1] == "ours / theirs" and "stretch" not in text.note


@pytest.mark.parametrize("stretch", [1, None])
def test_windows_cut_in_two_ways_are_not_mixed(make, stretch):
    rows = [make.row("a", window=0, stretch=0), make.row("a", window=1, stretch=1)]
    with pytest.raises(ReportError, match=r"window 0 of synthetic .* cut otherwise"):
        standings([*rows, make.row("b", window=0, stretch=stretch)], ours=None, confidence=0.95)


def test_stretches_survive_the_file_and_its_report(tmp_path, make):
    rows = rows_of(make, [0, 1, 0], {0: 0.5, 1: 0.8})
    write_comparison(tmp_path, rows, ours="agents", confidence=0.95)
    assert read_comparison_csv(tmp_path / "comparison.csv") == rows
    assert "3 windows of 2 stretches" in (tmp_path / "comparison.md").read_text()


def test_results_of_earlier_versions_have_no_stretch(tmp_path, make, record):
    path = tmp_path / "comparison.csv"
    write_comparison_csv(path, [make.row()])
    header, line = path.read_text().splitlines()
    assert ",role,stretch," in header and ",composite,," in line
    header, line = header.replace(",stretch,", ","), line.replace(",composite,,", ",composite,")
    path.write_text(f"{header}\n{line}\n")
    assert read_comparison_csv(path) == [make.row()]
    write_record(tmp_path, record)
    kept = (tmp_path / "record.json").read_text()
    assert '"stretch": null' in kept
    (tmp_path / "record.json").write_text(kept.replace('  "stretch": null,\n', ""))
    assert read_labels(tmp_path) == make.labels("by_hand")


def test_leagues_pages_and_arms_go_by_stretch_too(make):
    """Two stretches cover half at most: their range, or t over the windows where that is wider."""
    rows = rows_of(make, [0, 1] * 4, {0: 0.5, 1: 0.8})
    runs = [LeagueRun("cell", "trace", row) for row in rows]
    told = {"everywhere": None, "common": None, "reference": "sjf", "confidence": 0.95}
    found = {each.scheduler: each.ratio for each in league_rows(league_of(runs), **told)}
    assert found["agents"].numbers == pytest.approx((0.4**0.5, 0.5, 0.8))
    claim = Claim("saved", "agents", "sjf", "jct_mean_s", "")
    saved = measured([claim], runs, confidence=0.95)[0].interval
    assert saved is not None and saved.numbers == pytest.approx((1 - 0.4**0.5, 0.2, 0.5))
    arms = [replace(run, row=replace(run.row, labels=replace(
        run.row.labels, scheduler=f"x@{run.row.labels.scheduler}"))) for run in runs]  # fmt: skip
    first = arm_rows(arms, references=["sjf"], confidence=0.95)[0]
    assert first.ratios["sjf"].numbers == pytest.approx((0.4**0.5, 0.5, 0.8))
    alike = [1.0, 1.2, 1.4, 1.0, 1.2, 1.4]  # both stretches have the same mean
    wide = mean_over(dict(enumerate(alike)), {at: ("trace", at // 3) for at in range(6)}, 0.95)
    assert wide.numbers == pytest.approx(mean_interval(alike, 0.95).numbers) and wide.clusters == 2
