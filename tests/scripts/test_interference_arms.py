"""`reproduce.py experiment=interference_arms`: what an interference model is worth."""

import os
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("reproduce", "experiment=interference_arms", "debug=quick", "windows=1", "jobs=1")
BASE = "sjf+consolidated+selective1.2"
# The arms of one scheduler, and blind fallback sharing, which `none` should be.
FEW = "lineup.entries=[" + ",".join([
    *(
        f"{{role: global_queue, agents: 1, name: {BASE}@{arm},"
        f" overrides: ['scheduler=sjf', 'sharing=selective', '+belief={arm}']}}"
        for arm in ("none", "linear", "learned", "oracle")
    ),
    f"{{role: global_queue, agents: 1, name: {BASE}@fallback,"
    " overrides: ['scheduler=sjf', 'sharing=fallback', '+belief=none']}]",
])  # fmt: skip
# jobs enough that some must share
BUSY = ("workload.num_jobs=300", "workload.load=1.5")
OVER = (f"reproduce.ratio_to={BASE}@none", "reproduce.arms=[none,oracle]")


@pytest.fixture
def _measured() -> None:
    """Skip without the folder of published measurements."""
    folder = ROOT / os.environ.get("GPUYARD_DATA", "../shared/data")
    if not (folder / "colocation" / "gavel_pairs.csv").is_file():
        pytest.skip("no measured data: set GPUYARD_DATA to its folder")


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_arms_differ_by_what_they_are_told(done):
    outcome = done(*QUICK, FEW, *BUSY, *OVER)
    table = pd.read_csv(outcome.folder / "arms.csv").set_index(["cell", "arm"])
    assert set(table["scheduler"]) == {BASE}
    for cell in ("P100, Venus-like", "V100, Venus-like"):
        jct = table.loc[cell]["jct_mean_s"]
        assert jct["none"] == jct["fallback"]  # no model: shares whatever fits into memory
        assert jct.drop("fallback").nunique() == 4
        over = table.loc[cell]["over_oracle"]
        assert over["none"] == pytest.approx(jct["none"] / jct["oracle"])
    runs = pd.read_csv(outcome.folder / "comparison.csv")
    assert set(runs["physics"]) == {"measured"}
    told = runs["scheduler"].str.partition("@")[2].replace("fallback", "none")
    assert (runs["interference_info"] == told).all()


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_the_whole_line_up_in_small(done):
    outcome = done(*QUICK, "most_cells=1")
    table = pd.read_csv(outcome.folder / "arms.csv")
    assert set(table["cell"]) == {"P100, Venus-like"}
    counts = table.groupby("scheduler")["arm"].nunique()
    # no sharing and five beliefs; least interference first also with empty GPUs first
    assert counts.map(lambda n: n in {6, 7}).all() and len(counts) == 6
    assert "over none | over no_sharing | over oracle" in (outcome.folder / "arms.md").read_text()


def test_without_the_measured_files_it_says_so(start, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUYARD_DATA", str(tmp_path))
    outcome = start(*QUICK)
    outcome.failed_with("no cell is left", str(tmp_path / "colocation" / "gavel_pairs.csv"))


def test_arms_must_be_names(start):
    start(*QUICK, "reproduce.arms=none").failed_with("reproduce.arms is 'none'", "like [none]")
