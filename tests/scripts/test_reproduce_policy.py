"""`reproduce.py` with a learned policy: windows played together, and the headline's tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from marl.policy.build import build_policy, save_policy
from sim.report.headline import AT_ARRIVAL
from tests.marl.worlds import RULES
from tests.marl.worlds import SMALL as SPEC

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
RIVALS = (
    "{role: composite, overrides: ['scheduler=sjf,fifo', 'forwarding=least_loaded,steal']},"
    "{role: global_queue, overrides: ['scheduler=sjf'], agents: 1}"
)
LINEAR = "{role: linear_score, name: linear_score, overrides: ['scheduler=linear_score']}"
SMALL = ("topology=small_leaf_spine", "workload.num_jobs=80", "workload.max_gang=8", "jobs=1")


@pytest.fixture
def policy(tmp_path):
    """A policy folder with fresh weights."""
    folder = tmp_path / "policy"
    folder.mkdir()
    save_policy(folder, build_policy(SPEC), SPEC, RULES)
    return folder


def stored(folder, scheduler="marl"):
    """Mean JCT of the policy's stored runs by window and number of agents."""
    texts = [json.loads(path.read_text()) for path in (folder / "parts").glob("*.json")]
    return {(text["labels"]["agents"], text["labels"]["window"]): text["metrics"]["jct_mean_s"]
            for text in texts if text["labels"]["scheduler"] == scheduler}  # fmt: skip


@pytest.mark.slow
def test_windows_of_a_policy_are_stored_singly_and_only_missing_ones_are_played(done, policy):
    words = ("experiment=marl_philly", "most_cells=1", f"checkpoint={policy}", *SMALL,
             "lineup.entries=[]", "agent_counts=[2]", "reproduce.picked_on=null")  # fmt: skip
    first = done("reproduce", *words, "windows=2")
    assert "2 runs, 0 of them done before" in first.err
    two = stored(first.folder)
    assert sorted(two) == [(2, 0), (2, 1)]
    assert "3 runs, 2 of them done before" in done("reproduce", *words, "windows=3").err
    three = stored(first.folder)  # window 2 was played alone, the others were left as they are
    assert two.items() <= three.items() and len(three) == 3
    assert set(first.table()["role"]) == {"ours"}

    save_policy(policy, build_policy(SPEC), SPEC, RULES)  # as large as before, another one
    assert "3 runs, 0 of them done before" in done("reproduce", *words, "windows=3").err


def test_a_window_that_fails_is_named_and_the_others_are_kept(start, policy):
    # gangs of more than 32 GPUs fit no partition of two; at this seed only window 1 has one
    words = ("experiment=marl_philly", "most_cells=1", f"checkpoint={policy}", "lineup.entries=[]",
             "topology=small_leaf_spine", "workload=venus_like", "workload.num_jobs=24", "jobs=1",
             "workload.max_gang=64", "agent_counts=[2]", "windows=3", "seed=6",
             "reproduce.picked_on=null")  # fmt: skip
    outcome = start("reproduce", *words)
    outcome.failed_with("1 of 3 runs failed", "checkpoint, 2 agents,", "test window 1")
    assert "fits none of the 2 partitions" in outcome.text("failures.txt")
    assert {window for _, window in stored(outcome.folder)} == {0, 2}


@pytest.mark.slow
def test_the_headline_in_small(done, policy):
    outcome = done(
        "reproduce", "experiment=marl_headline_full", "debug=quick", f"checkpoint={policy}",
        f"lineup.entries=[{RIVALS},{LINEAR}]", "agent_counts=[2,4]", "jobs=1",
    )  # fmt: skip
    table = outcome.table()
    # two loads, two windows: the policy, 4 compositions and the score with 2 and 4 agents; a queue
    assert len(table) == 2 * 2 * (6 * 2 + 1)
    # for the choice as many windows again of the compositions and the queue
    assert len(list((outcome.folder / "parts").iterdir())) == len(table) + 2 * 2 * (4 * 2 + 1)
    found = pd.read_csv(outcome.folder / "headline.csv", keep_default_na=False)
    assert found.groupby(["load", "agents"]).ngroups == 4
    assert set(found["picked_on"]) == {"", "validation", "test"}
    for _, cell in found.groupby(["load", "agents"]):
        rows = table[(table["load"] == cell["load"].iloc[0])]
        here = rows[(rows["agents"] == cell["agents"].iloc[0]) & (rows["role"] == "composite")]
        logs = np.log(here.pivot(index="window", columns="scheduler", values="jct_mean_s")).mean()
        best = cell[(cell["against"] == "best composite") & (cell["picked_on"] == "test")].iloc[0]
        assert logs[best["scheduler"]] == pytest.approx(logs.min())
        ours = np.log(rows[(rows["role"] == "ours") & (rows["agents"] == cell["agents"].iloc[0])]
                      ["jct_mean_s"]).mean()  # fmt: skip
        assert float(best["ratio"]) == pytest.approx(np.exp(ours - logs.min()))
        routed = cell[cell["against"] == "best routed at arrival"]["scheduler"]
        assert len(routed) == 2 and routed.str.endswith("+least_loaded").all()
    assert "best composite" in outcome.out and "linear score" in outcome.out
    assert "ours / theirs" in outcome.text()


def test_of_a_short_trace_all_windows_are_played_and_told_by_stretch(done, tmp_path):
    jobs = "".join(f"j{n},{n * 60},{1 + n % 4},{60 + 97 * n % 3600}\n" for n in range(200))
    path = tmp_path / "jobs.csv"
    path.write_text(f"job_id,submit_s,num_gpus,duration_s\n{jobs}")
    rivals = "{role: composite, overrides: ['scheduler=sjf,fifo', 'forwarding=steal']}"
    outcome = done(
        "reproduce", "experiment=marl_headline_full", "workload=csv", f"workload.path={path}",
        "topology=small_leaf_spine", f"lineup.entries=[{rivals},{LINEAR}]", "checkpoint=null",
        "ours=linear_score", "agent_counts=[2]", "most_cells=1", "jobs=1", "workload.thin=2",
        "workload.num_jobs=10",
    )  # fmt: skip
    # 70 jobs of the file are test, which is 3 stretches of 2 windows; 30 are validation
    assert "windows is 40, but part 'test' has 6" in outcome.err
    assert "windows is 8, but part 'validation' has 2" in outcome.err
    table = outcome.table()
    assert len(table) == 6 * 3 and set(table["stretch"]) == {0, 1, 2}
    assert len(list((outcome.folder / "parts").iterdir())) == 6 * 3 + 2 * 2
    found = outcome.table("headline.csv")
    assert set(found["windows"]) == {6} and set(found["stretches"]) == {3}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topologies", "philly", "tables", "zero_shot"])
def test_experiments_of_the_shipped_policy_run(done, name):
    few = ("debug=quick", "windows=1", "most_cells=1")
    outcome = done("reproduce", f"experiment=marl_{name}", *few)
    found = outcome.table("headline.csv")
    assert set(found["against"]) >= {"ours", "best composite", "best global queue", "linear score"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("part=validation",), ("part is validation", "reproduce.picked_on=null")),
        (("part=all",), ("part is all", "picked_on.part=validation")),
        (("reproduce.picked_on.windows=0",), ("picked_on.windows is 0",)),
        (("ours=nobody",), ("ours is 'nobody'", "linear_score")),
    ],
)
def test_what_cannot_be_is_one_message(start, words, told):
    small = (*SMALL, f"lineup.entries=[{LINEAR}]", "windows=1", "checkpoint=null")
    start("reproduce", "experiment=marl_philly", *small, *words).failed_with(*told)


def test_the_full_line_up_holds_the_whole_grid():
    whole, grid = (yaml.safe_load((CONF / "lineup" / f"{name}.yaml").read_text())["entries"]
                   for name in ("marl_headline_full", "headline_grid"))  # fmt: skip
    assert [entry for entry in grid if entry not in whole] == []


def test_every_rule_of_forwarding_routes_at_arrival_or_steals():
    rules = {path.stem for path in (CONF / "forwarding").glob("*.yaml")}
    assert rules == {*AT_ARRIVAL, "steal"}
