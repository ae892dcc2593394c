"""A comparison: its file, sweeps, windows that share stretches of time."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.evaluation.compare import MOST_CURVES
from gpuyard.pages.page import in_colours
from gpuyard.pages.sections import MOST_CURVES as MOST_ON_PAGE
from sim import files
from sim.report.arms import arm_rows
from sim.report.comparison_report import sweep_markdown, sweep_of, write_comparison
from sim.report.figures import colours_of, looks
from sim.report.job_times import mean_interval
from sim.report.league import LeagueRun, league_of, league_rows, mean_over
from sim.report.page_table import Claim, measured
from sim.report.run_folder import read_labels, write_record
from sim.report.standings import standings
from sim.report.table_text import table_text

COLUMNS = (
    "scheduler topology workload load agents seed window information interference_info physics "
    "role stretch part"
)


def test_the_columns_are_the_labels_then_the_metrics_nan_where_a_row_lacks_one(
    tmp_path, make, metrics
):
    path = tmp_path / "comparison.csv"
    files.write_comparison_csv(path, [files.ComparisonRow(make.labels(), metrics)])
    assert path.read_text().splitlines()[0].split(",") == [*COLUMNS.split(), *metrics]
    rows = [
        files.ComparisonRow(make.labels("a"), {"x": 1}),
        files.ComparisonRow(make.labels("b"), {"y": 2.5}),
    ]
    files.write_comparison_csv(path, rows)
    first, second = files.read_comparison_csv(path)
    assert (first.metrics["x"], second.metrics["y"]) == (1, 2.5)
    assert math.isnan(first.metrics["y"]) and math.isnan(second.metrics["x"])


def test_a_ratio_that_lacks_a_mean_is_not_called_one_of_other_windows(make):
    rows = [make.row("stuck", jct_h=math.nan, jobs_unfinished=10), make.row("fine", jct_h=3)]
    note = table_text(standings(rows, ours="stuck", confidence=0.95), ours="stuck", confidence=0.95)
    told = "No common window and seed with stuck where both have a mean JCT above 0: no ratio of "
    assert f"{told}fine." in note.note


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)
NUMBER = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)


@st.composite
def comparison_rows(draw):
    found = []
    for seed in range(draw(st.integers(1, 4))):
        name, load = draw(TEXT), draw(st.none() | st.floats(0, 2))
        role = draw(st.sampled_from(files.ROLES))
        labels = files.Labels(name, "t", 'a, "b"', load, 3, seed, 1, "none", "none", "off", role)
        found.append(files.ComparisonRow(labels, {"jct_mean_s": draw(NUMBER), "n": draw(NUMBER)}))
    return found


@given(comparison_rows())
def test_rows_read_back_equal(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "comparison.csv"
    files.write_comparison_csv(path, rows)
    assert files.read_comparison_csv(path) == rows


def test_the_same_result_twice_and_an_unknown_role_are_refused(make):
    with pytest.raises(files.ReportError, match=r"two rows of scheduler fifo.*, 1 agent, seed"):
        files.check_distinct([make.row(jct_h=1, agents=1), make.row(jct_h=2, agents=1)])
    with pytest.raises(files.ReportError, match="role is 'baseline'; use one of ours, composite"):
        make.labels(role="baseline")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scheduler,topology", "name,topology", r"line 1: column 1 is 'name'.*'scheduler'"),
        (",0.9,2,", ",0.9,two,", r"line 2: column agents is 'two'"),
        (",0.9,2,", ",high,2,", r"line 2: column load is 'high'"),
        (",composite,", ",best,", r"line 2: scheduler fifo: role is 'best'"),
        (",0.75,", ",most,", r"line 2: column gpu_util_frac is 'most'"),
        (",0.75,", ",", r"line 2: 24 cells for 25 columns"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, make, old, new, words):
    path = tmp_path / "comparison.csv"
    files.write_comparison_csv(path, [make.row()])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(files.ReportError, match=words):
        files.read_comparison_csv(path)


def test_one_queue_on_fewer_windows_is_told_where_it_stands(tmp_path, make):
    """It has one agent in the file, and stands beside those with more."""
    rows = [make.row("a", window=window) for window in range(3)]
    rows += [make.row("queue", window=window, agents=1, role="global_queue") for window in range(2)]
    write_comparison(tmp_path, rows, ours=None, confidence=0.95)
    text = (tmp_path / "comparison.md").read_text()
    assert "Not on all windows and seeds that others ran: queue (2 of 3)." in text


@pytest.fixture
def at_load(make):
    def rows(load, **jct_h):
        found = [make.row(name, value) for name, value in jct_h.items()]
        return [replace(row, labels=replace(row.labels, load=load)) for row in found]

    return rows


def swept(rows):
    return sweep_of(standings(rows, ours=None, confidence=0.95))


def test_schedulers_down_and_what_was_swept_across(at_load):
    sweep = swept([*at_load(0.9, fifo=4.0, sjf=3.0), *at_load(0.5, fifo=2.5, sjf=2.0)])
    assert sweep_markdown(sweep).splitlines() == [
        "## mean JCT [h] over load", "", "| scheduler | 0.5 | 0.9 |", "|:--|--:|--:|",
        "| sjf | 2.00 | 3.00 |", "| fifo | 2.50 | 4.00 |",
    ]  # fmt: skip
    assert sweep.numbers() == (0, (0.5, 0.9))
    hole = swept([*at_load(0.5, fifo=2.5, sjf=2.0), *at_load(0.9, fifo=4.0)])
    assert "| sjf | 2.00 | - |" in sweep_markdown(hole)


def test_keys_that_no_column_tells_are_read_from_the_names(make):
    names = [f"sjf [estimator.sigma={sigma} seed={seed}]" for sigma in (1, 2) for seed in (3, 4)]
    sweep = swept([make.row(name, 1.0 + place) for place, name in enumerate(names)])
    assert sweep.keys == ("estimator.sigma", "seed")
    assert sweep.points == (("1", "3"), ("1", "4"), ("2", "3"), ("2", "4"))
    assert list(sweep.roles) == ["sjf"]


def test_what_is_no_sweep_has_no_such_table(make, at_load):
    assert swept([make.row("a", 1.0), make.row("b", 2.0)]) is None
    many = [row for step in range(13) for row in at_load(0.1 + step / 10, sjf=1.0)]
    assert swept(many) is None
    # Names have the placer but for one scheduler, which takes no notice of it.
    mixed = ["fifo+packed", "fifo+closest", "dally [placer=packed]", "dally [placer=closest]"]
    assert swept([make.row(name, 1.0) for name in mixed]) is None
    assert swept([make.row(name, 1.0) for name in mixed[2:]]).keys == ("placer",)
    other = ["fifo", "marl [algo.gamma=0.9]", "marl [algo.gamma=1]"]
    assert swept([make.row(name, 1.0) for name in other]).keys == ("algo.gamma",)


def test_a_number_that_was_swept_has_lines(at_load, tmp_path):
    rows = [*at_load(0.5, fifo=2.5, sjf=2.0), *at_load(0.9, fifo=4.0, sjf=3.0)]
    write_comparison(tmp_path / "swept", rows, ours=None, confidence=0.95, sweeps=True)
    text = (tmp_path / "swept" / "comparison.md").read_text()
    assert text.startswith("## mean JCT [h] over load")
    assert "at load 0.9" in text  # all metrics stand below
    assert (tmp_path / "swept" / "sweep.png").read_bytes()[1:4] == b"PNG"
    write_comparison(tmp_path / "plain", rows[:2], ours=None, confidence=0.95, sweeps=True)
    assert not (tmp_path / "plain" / "sweep.png").exists()


def test_a_scheduler_has_one_colour_in_all_figures_and_no_two_lines_look_alike():
    runs = [("b", "composite"), ("a", "composite"), ("m", "ours"), ("c", "composite")]
    colours = colours_of(runs)
    assert len(set(colours.values())) == 4
    lines = looks({f"{name}, 4 agents": (name, role) for name, role in runs})
    assert {name: lines[f"{name}, 4 agents"]["color"] for name, _ in runs} == {
        name: colour for (name, _), colour in colours.items()
    }
    assert len({line["linestyle"] for name, line in lines.items() if name[0] != "m"}) == 3
    found = looks({f"{at:02}": (f"{at:02}", "composite") for at in range(MOST_CURVES)}).values()
    assert len({tuple(look.values()) for look in found}) == MOST_CURVES
    lines = [{"meta": name, "name": name, "line": {}} for name in map(str, range(24))]
    assert len(lines) == MOST_ON_PAGE
    assert len({tuple(line["line"].values()) for line in in_colours([lines])[0]}) == MOST_ON_PAGE


def rows_of(make, stretches, ratios):
    """Ours takes `ratios[s]` of the other's time in windows of stretch s; window w is w + 1 h."""
    return [
        make.row(name, (1.0 + window) * ratio, window=window, stretch=stretch, role=role)
        for window, stretch in enumerate(stretches)
        for name, ratio, role in (("agents", ratios[stretch], "ours"), ("sjf", 1.0, "composite"))
    ]


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


def test_enough_stretches_are_not_called_few_and_one_is_marked(make):
    ratios = {stretch: 0.5 + 0.05 * stretch for stretch in range(6)}
    text, title, lines = shown(rows_of(make, range(6), ratios))
    assert title.endswith("6 windows of 6 stretches") and "†" not in text.note
    assert lines["sjf"]["effective windows"] == "6.0"
    text, title, lines = shown(rows_of(make, [0] * 4, {0: 0.5}))
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
    with pytest.raises(files.ReportError, match=r"window 0 of synthetic .* cut otherwise"):
        standings([*rows, make.row("b", window=0, stretch=stretch)], ours=None, confidence=0.95)


def test_stretches_survive_the_file_and_its_report(tmp_path, make):
    rows = rows_of(make, [0, 1, 0], {0: 0.5, 1: 0.8})
    write_comparison(tmp_path, rows, ours="agents", confidence=0.95)
    assert files.read_comparison_csv(tmp_path / "comparison.csv") == rows
    assert "3 windows of 2 stretches" in (tmp_path / "comparison.md").read_text()


def test_results_of_earlier_versions_have_no_stretch(tmp_path, make, record):
    path = tmp_path / "comparison.csv"
    files.write_comparison_csv(path, [make.row()])
    header, line = path.read_text().splitlines()
    assert ",role,stretch," in header and ",composite,," in line
    header, line = header.replace(",stretch,", ","), line.replace(",composite,,", ",composite,")
    path.write_text(f"{header}\n{line}\n")
    assert files.read_comparison_csv(path) == [make.row()]
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
