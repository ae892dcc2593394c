"""Tables of pages of results that stand between marks are what their experiment gives."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sim.report.page_table import BEGIN, END
from tests.docs.told import ROOT

MARK = re.compile(re.escape(BEGIN).replace(r"\{\}", r"([\w-]+)"))
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
RELATIVE, ABSOLUTE = 0.02, 1.01  # of the last figure's place where that is more
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))
OTHER = ("ID", "speed")  # which reproducing.md explains; of benchmarks/speed_page.py
FOUND = [(page, name) for page in PAGES for name in MARK.findall(page.read_text("utf-8"))]
FOUND = [(page, name) for page, name in FOUND if name not in OTHER]
LONG = {  # 3 to 40 minutes each
    "baselines", "interference_arms", "interference_models", "league", "learn_graph",
    "learn_interference", "learn_sizes", "main_job", "marl_ablations", "marl_arms",
    "marl_headline_full", "marl_paper", "marl_philly",
    "marl_real_traces", "marl_suspending", "marl_tables", "marl_topologies", "marl_zero_shot",
    "topdrl_main", "worl_online",
}  # fmt: skip
DATA = Path(os.environ.get("GPUYARD_DATA", ROOT.parent / "shared" / "data"))


def marked(page: Path, name: str) -> str:
    _, _, rest = page.read_text(encoding="utf-8").partition(BEGIN.format(name))
    table, end, _ = rest.partition(END)
    assert end, f"{page.name}: the table {name} has no end"
    return table.strip() + "\n"


def differences(ours: str, theirs: str) -> list[str]:
    """Cells that differ by more than rounding."""
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return [f"other words:\n{ours}\n{theirs}"]
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return [f"{a} is now {b}" for a, b in pairs if not near(a, b)]


def near(one: str, other: str) -> bool:
    last = 10.0 ** -len(one.partition(".")[2])
    a, b = (float(text.replace(",", "")) for text in (one, other))
    return abs(a - b) <= max(RELATIVE * abs(a), ABSOLUTE * last)


def outline(table: str) -> list[str]:
    """What stands above the columns and before the rows; a window has no † for few stretches."""
    head, _, *rows = table.splitlines()
    return [head.replace(" †", ""), *(row.split("|")[1] for row in rows if row)]


def test_tables_are_marked_and_name_an_experiment():
    assert {page.name for page, _ in FOUND} >= {"dally.md", "a_srpt.md"}
    for page, name in FOUND:
        text = (ROOT / "conf" / "experiment" / f"{name}.yaml").read_text(encoding="utf-8")
        assert f"docs/results/{page.name}" in text
        assert marked(page, name).count("\n") > 2, f"{page.name}: {name} has no rows"


def test_the_table_of_speed_has_the_lines_of_its_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    program: Any = import_module("speed_page")
    _, _, *rows = marked(ROOT / "docs" / "results" / "speed.md", program.TABLE).splitlines()
    told = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert told == [each.what for each in program.LINES]


def test_a_changed_figure_is_seen_and_rounding_is_not():
    table = "| x | 0.73 [0.58, 0.93] | 1,200 ± 70 |\n"
    assert differences(table, table.replace("0.58", "0.59").replace("1,200", "1,210")) == []
    assert differences(table, table.replace("0.73", "0.76")) == ["0.73 is now 0.76"]
    assert "other words" in differences(table, table.replace("x", "y"))[0]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "name"), FOUND, ids=[name for _, name in FOUND])
def test_the_table_is_what_the_experiment_gives(page: Path, name: str, tmp_path: Path):
    """Two to four minutes each; of the long ones a window is played, for rows and columns."""
    if name == "learn_from_nothing":
        pytest.skip("50 minutes, and other figures each time: the clock decides")
    told = (ROOT / "conf" / "experiment" / f"{name}.yaml").read_text(encoding="utf-8")
    if "GPUYARD_DATA" in told and not (DATA / "traces").is_dir():
        pytest.skip("GPUYARD_DATA has no traces, which this table is of")
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GPUYARD_DATA": str(DATA),
    }  # fmt: skip
    copy = tmp_path / page.name
    copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    words = [f"experiment={name}", f"into={copy}", "page=false", f"hydra.run.dir={tmp_path}/run"]
    quick = "debug=quick" if name.startswith("learn_") or "runs:" in told else "windows=1"
    words += [quick] if name in LONG else []
    done = subprocess.run(
        [sys.executable, "-m", "gpuyard", "reproduce", *words], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-400:]
    if name in LONG:
        assert outline(marked(copy, name)) == outline(marked(page, name))
    else:
        assert differences(marked(page, name), marked(copy, name)) == []
