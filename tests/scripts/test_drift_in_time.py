"""`drift_in_time.py`, and a belief that is updated, as a user runs them."""

import pandas as pd

TINY = ("topology=small_leaf_spine", "workload.num_jobs=80", "workload.max_gang=8")
ARMS = ("fixed", "online", "online_anew", "oracle")


def entries(*arms: str) -> str:
    beliefs = {"fixed": "learned", "online": "online", "oracle": "oracle"}
    found = [
        f"{{role: composite, name: 'lif@{arm}', agents: 1, "
        f"overrides: ['scheduler=lif', '+belief={beliefs[arm]}']}}"
        for arm in arms
    ]
    return f"lineup.entries=[{','.join(found)}]"


def test_evidence_goes_from_window_to_window(done):
    words = (entries("fixed", "online", "oracle"), "interference.sigma=1.0")
    outcome = done("drift_in_time", *TINY, *words, "windows=2", "workload.num_jobs=240")
    table = pd.read_csv(outcome.folder / "comparison.csv")
    assert set(table["physics"]) == {"drifted shipped"}
    jct_s = table.pivot(index="window", columns="scheduler", values="jct_mean_s")
    jct_s.columns = [name.removeprefix("lif@") for name in jct_s.columns]
    assert set(jct_s.columns) == set(ARMS)
    # The first window begins without evidence for both; in the second only one has some.
    assert jct_s.loc[0, "online"] == jct_s.loc[0, "online_anew"] != jct_s.loc[0, "fixed"]
    assert jct_s.loc[1, "online"] != jct_s.loc[1, "online_anew"]
    arms = pd.read_csv(outcome.folder / "arms.csv").set_index("arm")
    assert set(arms.index) == set(ARMS)
    assert "| lif | online_anew | 2 |" in (outcome.folder / "arms.md").read_text()


def test_a_truth_that_stays_is_refused(start):
    outcome = start("drift_in_time", *TINY, "interference=shipped", "~interference.sigma")
    outcome.failed_with("use interference=drifted")


def test_a_scheduler_that_cannot_be_told_anew_is_refused(start):
    outcome = start("simulate", "workload.num_jobs=20", "scheduler=linear_score", "belief=online")
    outcome.failed_with("linear_score", "reads its belief once")


def test_whoever_asks_for_no_belief_is_left_as_it_is(done):
    outcome = done("simulate", "workload.num_jobs=20", "scheduler=fifo", "belief=online")
    assert outcome.out.startswith("fifo+consolidated on")
