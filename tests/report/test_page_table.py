"""The tables of a page of results, from runs made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.launch.errors import ConfigError
from gpuyard.reproduction.node import page_tables, put_into
from sim.report.arms import arm_rows
from sim.report.league import LeagueRun
from sim.report.page_table import Claim, measured, page_markdown

HOUR_S = 3600.0


@pytest.fixture
def runs(make):
    """Two schedulers in two cells of two windows; b takes twice as long as a."""
    return [
        LeagueRun(cell, "made", make.row(name, hours * (window + 1), window=window))
        for cell, more in (("load 0.5", 1.0), ("load 0.9", 2.0))
        for name, hours in (("a", more), ("b", 2 * more))
        for window in range(2)
    ]


def test_without_a_node_every_scheduler_has_a_line_and_every_cell_a_column(runs):
    lines = page_markdown((), runs, confidence=0.95).splitlines()
    assert lines[0] == "| mean JCT [h] | load 0.5 | load 0.9 |"
    assert lines[2].startswith("| a | 1.50 ± 6.35 | 3.00 ± ")
    assert len(lines) == 4


def test_a_node_says_rows_columns_and_what_is_shown(runs):
    row = {"label": "a of b", "scheduler": "a", "against": "b"}
    node = [
        {"show": "ratio", "corner": "x", "columns": {"load 0.9": "0.9"}, "rows": [row]},
        {"show": "saved", "columns": {"all": "all", "not run": "?"}, "rows": [row]},
    ]
    text = page_markdown(page_tables("here", node), runs, confidence=0.95)
    assert text == (
        "| x | 0.9 |\n|:--|--:|\n| a of b | 0.50 [0.50, 0.50] |\n"
        "\n|  | all |\n|:--|--:|\n| a of b | 50 [50, 50] |\n"
    )


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
    node = [{"show": "ratio", "columns": {"one, 4 agents": "4", "one, 8 agents": "8"},
             "digits": 3, "rows": rows}]  # fmt: skip
    lines = page_markdown(page_tables("here", node), found, confidence=0.95).splitlines()
    told = [[cell.partition("[")[0].strip() for cell in line.split("|")[1:4]] for line in lines[3:]]
    assert lines[2].split(" ±")[0].startswith("| ours [h] | 1.00")
    assert told == [
        ["best composite", "0.333", "0.667"], ["sjf", "0.250", "0.500"],
        ["a, one queue", "0.125", "0.250"],
    ]  # fmt: skip


def test_few_stretches_and_jobs_undone_are_marked(make):
    found = [
        LeagueRun("one", "made", make.row(name, hours + window, window=window, **more))
        for name, hours, more in (
            ("a", 1.0, {}),
            ("b", 2.0, {}),
            ("c", 0.5, {"jobs_unfinished": 3}),
        )
        for window in range(4)
    ]
    found = [replace(run, row=replace(run.row, labels=replace(run.row.labels, stretch=0)))
             for run in found]  # fmt: skip
    rows = [{"label": name, "scheduler": name} for name in "abc"]
    lines = page_markdown(page_tables("here", [{"rows": rows}]), found, confidence=0.95)
    assert [line.split("|")[1].strip() for line in lines.splitlines()[2:]] == ["a", "b", "c *"]
    assert lines.splitlines()[0] == "|  | one † |"


def test_who_has_no_mean_in_a_window_is_not_the_best(make):
    def run(name: str, hours: float, window: int) -> LeagueRun:
        role = "ours" if name == "ours" else "composite"
        return LeagueRun("one", "made", make.row(name, hours, window=window, role=role))

    found = [run("good", 2.0, 0), run("good", 2.0, 1), run("broken", 1.0, 0),
             run("broken", float("nan"), 1), run("ours", 1.0, 0), run("ours", 1.0, 1)]  # fmt: skip
    row = {"label": "best", "scheduler": "ours", "against": "best composite"}
    text = page_markdown(
        page_tables("here", [{"show": "saved", "rows": [row]}]), found, confidence=0.95
    )
    assert "| best | 50 [50, 50] |" in text


def test_cells_that_are_joined_are_averaged_window_by_window(runs):
    row = {"label": "a of b", "scheduler": "a", "against": "b"}
    node = [{"show": "saved", "columns": {"load 0.5 + load 0.9": "both"}, "rows": [row]}]
    text = page_markdown(page_tables("here", node), runs, confidence=0.95)
    assert text == "|  | both |\n|:--|--:|\n| a of b | 50 [50, 50] |\n"


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
