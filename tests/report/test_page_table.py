"""The tables of a page of results, and of arms: who is divided by whom, by hand."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from gpuyard.launch.errors import ConfigError
from gpuyard.reproduction.node import page_tables, put_into
from sim.files import ReportError
from sim.report.arms import arm_rows, arms_csv, arms_markdown, seed_arms
from sim.report.job_times import mean_interval
from sim.report.league import LeagueRun
from sim.report.page_table import Claim, measured, page_markdown

A_OF_B = {"label": "a of b", "scheduler": "a", "against": "b"}


def page(runs, *node) -> str:
    tables = page_tables("here", list(node)) if node else ()
    return page_markdown(tables, runs, confidence=0.95)


@pytest.fixture
def runs(make):
    """Two schedulers in two cells of two windows; b takes twice as long as a."""
    return [
        LeagueRun(cell, "made", make.row(name, hours * (window + 1), window=window))
        for cell, more in (("load 0.5", 1.0), ("load 0.9", 2.0))
        for name, hours in (("a", more), ("b", 2 * more))
        for window in range(2)
    ]


def test_a_node_says_rows_columns_and_what_is_shown(runs):
    lines = page(runs).splitlines()  # without one: a line a scheduler, a column a cell
    assert lines[0] == "| mean JCT [h] | load 0.5 | load 0.9 |"
    assert lines[2].startswith("| a | 1.50 ± 6.35 | 3.00 ± ") and len(lines) == 4
    ratio = {"show": "ratio", "corner": "x", "columns": {"load 0.9": "0.9"}, "rows": [A_OF_B]}
    saved = {"show": "saved", "columns": {"all": "all", "not run": "?"}, "rows": [A_OF_B]}
    assert page(runs, ratio, saved) == (
        "| x | 0.9 |\n|:--|--:|\n| a of b | 0.50 [0.50, 0.50] |\n"
        "\n|  | all |\n|:--|--:|\n| a of b | 50 [50, 50] |\n"
    )
    # Cells that are joined are averaged window by window.
    both = {"show": "saved", "columns": {"load 0.5 + load 0.9": "both"}, "rows": [A_OF_B]}
    assert page(runs, both) == "|  | both |\n|:--|--:|\n| a of b | 50 [50, 50] |\n"


def test_ours_stands_beside_each_mean(runs):
    rows = [{"label": name, "scheduler": name} for name in "ab"]
    node = [{"ours": "a", "columns": {"load 0.5": "0.5 [h]", "load 0.9": "0.9 [h]"}, "rows": rows}]
    lines = page_markdown(page_tables("here", node), runs, confidence=0.95).splitlines()
    assert lines[0] == "|  | 0.5 [h] | ours / theirs | 0.9 [h] | ours / theirs |"
    told = [line.split("|")[2:6] for line in lines[2:]]
    assert [row[1].strip() for row in told] == ["1.00 [1.00, 1.00]", "0.50 [0.50, 0.50]"]
    assert [row[2].split()[0] for row in told] == ["3.00", "6.00"]


def test_claims_and_arms_count_every_number_of_agents(make):
    """Runs of one window with other numbers of agents are no run of each other."""
    hours = {("ours@a", 4): 1.0, ("ours@a", 8): 4.0, ("ours@b", 4): 2.0, ("ours@b", 8): 2.0}
    runs = [
        LeagueRun("one", "made", make.row(name, jct_h * (1 + window), agents=agents, window=window))
        for (name, agents), jct_h in hours.items()
        for window in range(2)
    ]
    claim = Claim("saved", "ours@a", "ours@b", "jct_mean_s", 0.5)
    found = {row.cell: row.interval.centre for row in measured([claim], runs, confidence=0.95)}
    saved = {"all": 0.0, "one, 4 agents": 0.5, "one, 8 agents": -1.0}
    assert found == pytest.approx(saved)
    arms = arm_rows(runs, references=["b"], confidence=0.95)
    ratios = {row.cell: row.ratios["b"].centre for row in arms if row.arm == "a"}
    assert ratios == pytest.approx({"one, 4 agents": 0.5, "one, 8 agents": 2.0})


def test_agents_stand_apart_and_beside_what_has_one_queue(make):
    def runs(name: str, hours: float, agents: int, role: str) -> list[LeagueRun]:
        rows = [make.row(name, hours, window=w, agents=agents, role=role) for w in range(2)]
        return [LeagueRun("one", "made", row) for row in rows]

    found = [
        *runs("ours", 1.0, 4, "ours"), *runs("ours", 2.0, 8, "ours"),
        *runs("a", 4.0, 4, "composite"), *runs("b", 3.0, 4, "composite"),
        *runs("a", 3.0, 8, "composite"), *runs("b", 4.0, 8, "composite"),
        *runs("sjf", 4.0, 1, "global_queue"), *runs("a", 8.0, 1, "global_queue"),
    ]  # fmt: skip
    rows = [
        {"label": "ours [h]", "scheduler": "ours", "show": "mean"},
        *({"label": name, "scheduler": "ours", "against": name}
          for name in ("best composite", "sjf", "a, one queue", "not there")),
    ]  # fmt: skip
    lines = page(found, {"show": "ratio", "columns": {"one, 4 agents": "4", "one, 8 agents": "8"},
                         "digits": 3, "rows": rows}).splitlines()  # fmt: skip
    told = [[cell.partition("[")[0].strip() for cell in line.split("|")[1:4]] for line in lines[3:]]
    assert lines[2].split(" ±")[0].startswith("| ours [h] | 1.00")
    assert told == [
        ["best composite", "0.333", "0.667"], ["sjf", "0.250", "0.500"],
        ["a, one queue", "0.125", "0.250"],
    ]  # fmt: skip


def test_few_stretches_and_jobs_undone_are_marked_and_no_mean_is_not_the_best(make):
    found = [
        LeagueRun("one", "made", make.row(
            name, hours + window, window=window, stretch=0, jobs_unfinished=undone))
        for name, hours, undone in (("a", 1.0, 0), ("b", 2.0, 0), ("c", 0.5, 3))
        for window in range(4)
    ]  # fmt: skip
    lines = page(found, {"rows": [{"label": name, "scheduler": name} for name in "abc"]})
    assert [line.split("|")[1].strip() for line in lines.splitlines()[2:]] == ["a", "b", "c *"]
    assert lines.splitlines()[0] == "|  | one † |"
    found = [
        LeagueRun("one", "made", make.row(name, hours, window=window, role=role))
        for name, role, by_window in (
            ("good", "composite", (2.0, 2.0)), ("ours", "ours", (1.0, 1.0)),
            ("broken", "composite", (1.0, float("nan"))),
        )
        for window, hours in enumerate(by_window)
    ]  # fmt: skip
    row = {"label": "best", "scheduler": "ours", "against": "best composite"}
    assert "| best | 50 [50, 50] |" in page(found, {"show": "saved", "rows": [row]})


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({}, "must list tables"),
        ([{"rows": [{"label": "x"}]}], r"here\[0\].rows\[0\]: has no scheduler"),
        ([{"rows": [], "shows": "mean"}], "did you mean show"),
        ([{"rows": [], "show": "median"}], "must be mean or ratio or saved"),
    ],
)
def test_a_wrong_node_is_told(node, words: str):
    with pytest.raises(ConfigError, match=words):
        page_tables("here", node)


def test_a_table_is_put_between_its_marks(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("Words.\n\n<!-- table: one -->\nold\n<!-- end of table -->\n\nMore.\n")
    put_into(page, name="one", table="| new |\n")
    assert "<!-- table: one -->\n\n| new |\n\n<!-- end of table -->" in page.read_text()
    assert page.read_text().startswith("Words.\n") and page.read_text().endswith("\nMore.\n")
    with pytest.raises(ConfigError, match="no line `<!-- table: two -->`"):
        put_into(page, name="two", table="| new |\n")
    with pytest.raises(ConfigError, match="nothing that a row"):
        put_into(page, name="one", table="\n")
    assert "| new |" in page.read_text()


HOURS = {  # one window's mean JCT by GPU type
    "p100": {"a@none": 4.0, "a@learned": 3.0, "b@none": 8.0, "b@oracle": 4.0, "plain": 9.0},
    "v100": {"a@none": 4.0, "a@learned": 1.0, "b@oracle": 4.0},
}


@pytest.fixture
def arm_runs(make):
    """Two windows, one three times as long as the other, which pairing takes away."""
    return [
        LeagueRun(cell, "w", make.row(name, hours * factor, window=window))
        for cell, found in HOURS.items()
        for window, factor in enumerate((1.0, 3.0))
        for name, hours in found.items()
    ]


def test_arms_are_divided_by_the_same_schedulers_arm_in_the_same_cell(arm_runs):
    rows = arm_rows(arm_runs, references=["none", "oracle"], confidence=0.95)
    assert [f"{row.cell} {row.scheduler}@{row.arm}" for row in rows] == [
        f"{cell} {name}" for cell, found in HOURS.items() for name in found if "@" in name
    ]
    over_none = [row.ratios["none"] and row.ratios["none"].centre for row in rows]
    # None: itself, and b without the arm `none` on the V100
    assert over_none == [None, approx(0.75), None, approx(0.5), None, approx(0.25), None]
    assert rows[1].ratios["none"].low == approx(0.75)  # the same in both windows
    assert rows[2].ratios["oracle"].centre == approx(2.0)
    assert rows[1].jct_s.centre == approx((3 + 9) / 2 * 3600)


def test_both_files_tell_the_same(arm_runs):
    rows = arm_rows(arm_runs, references=["none"], confidence=0.95)
    table = list(csv.DictReader(io.StringIO(arms_csv(rows).decode())))
    assert [row["arm"] for row in table] == [row.arm for row in rows]
    assert table[0]["over_none"] == "" and float(table[1]["over_none"]) == approx(0.75)
    assert table[1]["windows"] == "2"
    text = arms_markdown(rows, confidence=0.95)
    assert text.index("## p100") < text.index("| a | learned | 2 |") < text.index("## v100")
    assert "| 0.750 [0.750, 0.750] |" in text and "| b | oracle | 2 | 8.00 ±" in text


def test_an_arm_that_nobody_has_is_named(arm_runs):
    with pytest.raises(ReportError, match="'truth'; the arms are none, learned, oracle"):
        arm_rows(arm_runs, references=["truth"], confidence=0.95)
    plain = [run for run in arm_runs if run.row.labels.scheduler == "plain"]
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
    for shape in ((2, 3), (3, 2)):  # other windows, other seeds
        words = rf"arm arm: {shape[0]} seeds of {shape[1]} windows"
        with pytest.raises(ReportError, match=words):
            seed_arms({"whole": WHOLE, "arm": np.ones(shape)}, whole="whole", confidence=0.95)
