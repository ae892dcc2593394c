"""`evaluate.py`: paired windows, roles, files, the learned policy, errors."""

import shutil
import signal
import time

import pandas as pd
import pytest

from marl.policy.build import build_policy, save_policy
from tests.marl.trainings import Training, wait_for
from tests.marl.worlds import RULES, SMALL

OURS = "sjf+consolidated+selective1.2+steal"
TINY = ("workload.num_jobs=80", "topology=small_leaf_spine", "workload.max_gang=8")
FEW = (
    "lineup.entries=["
    "{role: published, overrides: ['scheduler=lif']},"
    "{role: composite, overrides: ['scheduler=sjf,fifo', 'sharing=selective', 'forwarding=steal']},"
    "{role: global_queue, overrides: ['scheduler=sjf'], agents: 1, name: upper}]"
)


@pytest.fixture(scope="session")
def policy(tmp_path_factory):
    """A policy folder with fresh weights."""
    folder = tmp_path_factory.mktemp("policy")
    save_policy(folder, build_policy(SMALL), SMALL, RULES)
    return folder


def test_every_scheduler_meets_the_same_windows(done):
    outcome = done("evaluate", *TINY, FEW, "windows=2", "jobs=2", f"ours={OURS}")
    table = outcome.table()
    assert len(table) == 4 * 2
    assert {tuple(sorted(found)) for _, found in table.groupby("scheduler")["window"]} == {(0, 1)}
    roles = dict(zip(table["scheduler"], table["role"], strict=True))
    assert roles == {
        "lif+least_interference+always+own": "published",
        OURS: "composite",
        "fifo+consolidated+selective1.2+steal": "composite",
        "upper": "global_queue",
    }
    assert dict(zip(table["role"], table["agents"], strict=True))["global_queue"] == 1
    assert set(table["jobs_finished"]) == {48}  # the measured part of 80
    jobs = outcome.jobs()
    for drawn in ("duration_s", "profile"):
        paired = jobs.pivot(index=["window", "job_id"], columns="scheduler", values=drawn)
        assert (paired.nunique(axis=1) == 1).all()
    assert set(jobs.loc[jobs["scheduler"] == "upper", "home"]) == {0}
    assert set(jobs.loc[jobs["scheduler"] != "upper", "home"]) == {0, 1, 2, 3}
    for name in ("jct_bars.png", "jct_cdf.png", "utilisation_queue.png"):
        assert (outcome.folder / name).read_bytes().startswith(b"\x89PNG")
    page = outcome.text("report.html")
    assert "Use and queue over time" in page and "Job completion times" in page
    assert f"Jobs by server: {OURS}, window 0" in page
    jct_s = table[table["scheduler"] == OURS]["jct_mean_s"].mean()
    assert outcome.read()["jct_mean_s"] == pytest.approx(jct_s)
    assert "assumes durations: noisy predictions, sigma 1; models drawn; gangs" in outcome.err
    assert "Assumed: durations: noisy predictions, sigma 1" in outcome.out.replace("\n", " ")
    assert outcome.out.count("4 agents") == 1  # the global queue stands beside the agents
    assert "1 agent," not in outcome.out

    alone = done("evaluate", *TINY, FEW, "windows=1", "jobs=1", folder="alone").table()
    first, times = table[table["window"] == 0], "jct_mean_s"  # processes do not change results
    alone, first = (each.set_index("scheduler")[times].to_dict() for each in (alone, first))
    assert alone == first


def test_the_best_is_none_of_those_that_met_fewer_windows(done):
    """The first window is the easiest; in the last no job fails, so that a mean is over two."""
    entries = (
        "lineup.entries=[{role: composite, windows: 1, overrides: ['scheduler=fifo']},"
        "{role: composite, overrides: ['scheduler=sjf']}]"
    )
    jobs = ("workload=venus_full_like", "workload.num_jobs=12", "workload.thin=1")
    outcome = done("evaluate", *jobs, "agents.count=1", "jobs=1", "windows=3", entries)
    table = outcome.table()
    means = table.groupby("scheduler").mean(numeric_only=True)
    fewer, whole = means.loc[["fifo+consolidated", "sjf+consolidated"], "jct_mean_s"]
    assert fewer < whole
    assert "means over windows of sjf+consolidated" in outcome.err
    failed_s = table[table["scheduler"] == "sjf+consolidated"]["jct_failed_mean_s"]
    assert failed_s.isna().any()
    assert outcome.read()["jct_failed_mean_s"] == pytest.approx(failed_s.mean())
    page = outcome.text("report.html")
    told = "Not on all windows and seeds that others ran: fifo+consolidated (1 of 3)."
    assert told in page and told in outcome.text()
    assert "fifo+consolidated (1 of 3 windows)" in page  # in the distributions


def test_what_ran_with_several_numbers_of_agents_is_not_mixed(done):
    outcome = done("evaluate", *TINY, FEW, "windows=2", "agent_counts=[2,4]", f"ours={OURS}")
    table = outcome.table()
    assert len(table) == (3 * 2 + 1) * 2
    few = table[(table["scheduler"] == OURS) & (table["agents"] == 2)]
    assert outcome.read()["jct_mean_s"] == pytest.approx(few["jct_mean_s"].mean())
    assert f"{OURS} (2 agents)" in outcome.err  # what metrics.json is about
    # Whoever is best comes first, windows of one number of agents together.
    keys = list(zip(table["scheduler"], table["agents"], strict=True))
    assert keys[::2] == keys[1::2]
    means = table.groupby(["scheduler", "agents"])["jct_mean_s"].mean()
    assert [means[key] for key in keys] == sorted(means[key] for key in keys)


def test_only_entries_of_one_name_that_play_otherwise_are_refused(start):
    easy = "{role: composite, overrides: ['scheduler=easy', 'scheduler.overrun_s=%d']}"
    one = "{role: global_queue, overrides: ['scheduler=easy'], agents: 1}"
    entries = f"lineup.entries=[{one}, {easy % 10}, {easy % 20}]"
    failed = start("evaluate", *TINY, "agent_counts=[2,4]", entries, "windows=1")
    failed.failed_with("entries[1]", "entries[2]", "make the same scheduler")
    assert failed.err.count("entries[") == 2


def test_with_one_agent_entries_that_only_forward_otherwise_are_one(done):
    sjf = "{role: composite, overrides: ['scheduler=sjf', 'forwarding=own,steal']}"
    again = "{role: composite, name: mine, overrides: ['scheduler=sjf']}"
    upper = "{role: global_queue, overrides: ['scheduler=sjf'], agents: 1}"
    few = "{role: published, overrides: ['scheduler=fifo'], windows: 1, cells: [0]}"
    entries = f"lineup.entries=[{sjf},{again},{upper},{few}]"
    outcome = done("evaluate", *TINY, "agents.count=1", entries, "windows=2", "jobs=1")
    table = outcome.table()
    assert table.groupby("scheduler").size().to_dict() == {
        "sjf+consolidated": 2, "fifo+consolidated": 1,
    }  # fmt: skip
    kept = "plays as lineup.entries[0] (scheduler=sjf forwarding=own) does here; it is left out"
    assert outcome.err.count(kept) == 3
    for name in ("[0] (scheduler=sjf forwarding=steal)", "[1] (scheduler=sjf)", "[2] (scheduler="):
        assert f"lineup.entries{name}" in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("lineup", ["demo", "league"])
def test_whole_line_ups_play_with_one_agent(done, lineup):
    words = ("workload.num_jobs=40", *TINY[1:], "agents.count=1", f"lineup={lineup}", "windows=1")
    outcome = done("evaluate", *words)
    table = outcome.table()
    assert table["scheduler"].is_unique and len(table) > 10
    assert "it is left out" in outcome.err


def test_an_entry_may_be_told_other_slow_downs(done):
    words = (
        "lineup.entries=["
        "{role: published, overrides: ['scheduler=lif']},"
        "{role: published, name: lif_linear, overrides: ['scheduler=lif', '+belief=linear']}]"
    )
    table = done("evaluate", *TINY, words, "windows=1").table()
    assert dict(zip(table["scheduler"], table["interference_info"], strict=True)) == {
        "lif+least_interference+always+own": "learned",
        "lif_linear": "linear",
    }
    assert table["jct_mean_s"].nunique() == 2  # it placed otherwise


@pytest.mark.slow
def test_a_short_trace_gives_disjoint_windows_and_says_what_they_are_worth(done, tmp_path):
    path = tmp_path / "own.csv"
    rows = (f"j{k},{97 * k},{(1, 2, 8)[k % 3]},{60 + k * k % 7919}\n" for k in range(300))
    path.write_text("job_id,submit_s,num_gpus,duration_s\n" + "".join(rows))
    trace = (
        "workload=csv", f"workload.path={path}", "workload.num_jobs=60", "workload.thin=2",
        "workload.max_gang=8", "topology=small_leaf_spine", "part=all",
    )  # fmt: skip
    here = ("experiment=marl_headline", "checkpoint=null", "agent_counts=null", "jobs=2")
    ours = f"ours={OURS}"
    outcome = done("evaluate", *here, *trace, FEW, ours)
    assert "windows is 20, but part 'all' has 4" in outcome.out + outcome.err
    table = outcome.table()
    assert len(table) == 4 * 4
    assert (table["stretch"] == table["window"] % 2).all()
    assert "4 windows of 2 stretches †" in outcome.text()
    jobs = outcome.jobs()
    assert (jobs.groupby("job_id")["window"].nunique() == 1).all()  # of one window each
    assert jobs.groupby("window")["job_id"].nunique().tolist() == [36] * 4
    assert set(jobs.groupby(["window", "job_id"]).size()) == {4}  # the same for every scheduler

    compared = done("compare", f"sweep={outcome.folder}", ours, folder="compared")
    assert "4 windows of 2 stretches" in compared.out and "effective" in compared.out
    pd.testing.assert_frame_equal(compared.table(), table)

    one = done(
        "simulate", *trace, "window=3", "workload.windows_from=disjoint", "agents.count=4",
        "agents.skew=0.5", "workload.load=0.9", "workload.min_duration_s=30", "scheduler=sjf",
        "sharing=selective", "forwarding=steal", folder="one",
    )  # fmt: skip
    same = table[(table["scheduler"] == OURS) & (table["window"] == 3)]
    assert one.read()["jct_mean_s"] == pytest.approx(same["jct_mean_s"].item())
    assert one.read("record.json")["stretch"] == 1


@pytest.mark.slow
def test_the_learned_policy_and_what_it_was_before(done, policy, tmp_path):
    learned = tmp_path / "policy"
    for folder in (learned, learned / "start"):
        shutil.copytree(policy, folder)
    outcome = done("evaluate", *TINY, FEW, "windows=1", "jobs=1", f"checkpoint={learned}")
    table = outcome.table().set_index("scheduler")
    assert table.loc["marl", ["role", "information", "agents"]].tolist() == ["ours", "predicted", 4]
    assert table.loc["marl_start", "role"] == "ablation"
    assert "ours / theirs" in outcome.out
    compared = done("compare", f"sweep={outcome.folder}", folder="compared")
    assert "(ours)" in compared.out
    pd.testing.assert_frame_equal(compared.table().set_index("scheduler"), table)


@pytest.mark.parametrize(("words", "told"), [
    (("lineup=dmo",), ("did you mean lineup=demo?",)),
    (("jobs=all",), ("jobs is 'all'",)),
    (("confidence=95",), ("confidence is 95",)),
    (("rivals=maybe",), ("rivals is 'maybe'; it must be true or false",)),
    (("windows=1000000000",), ("windows is 1000000000; it must be at most 100000",)),
    (("part=[test]",), ("part is \"['test']\"; did you mean test?",)),
    (("jobs=100000",), ("jobs is 100000; use 1 to 10000, or -1",)),
    (("lineup=[]",), ("lineup=[]", "leave it out for the default")),
    (("lineup.entries=3",), ("lineup.entries is 3; it must be a list",)),
    (("lineup.entries=[{role: null, overrides: []}]",), ("entries[0].role is None",)),
    (("lineup.entries=[{role: ours, overrides: [], name: 3}]",), ("entries[0].name is 3",)),
    (("lineup.entries=[{role: ours, overrides: [], windows: a}]",), ("entries[0].windows is 'a'",)),
    (("ours=[best]", FEW), ("ours is ['best']",)),
    (("ours=best", FEW), ("ours is 'best'", "fifo+consolidated+selective1.2+steal")),
    (("part=tset", FEW), ("'tset'", "test")),
    (("lineup.entries=[{role: best, overrides: ['scheduler=sjf']}]",), ("'best'", "composite")),
    (("lineup.entries=[{rol: ours, overrides: []}]",), ("lineup.entries[0]", "'rol'", "role")),
    (("lineup.entries=[{role: ours, overrides: ['scheduler=sfj']}]",),
     ("entries[0]", "scheduler=sjf")),
    (("lineup.entries=[{role: ours, overrides: 'scheduler=sjf'}]",), ("entries[0]", "list")),
    (("lineup.entries=[{role: ours, overrides: ['scheduler=[']}]",), ("entries[0]",)),
    (("checkpoint=nowhere",), ("nowhere", "policy.json")),
])  # fmt: skip
def test_what_cannot_be_is_one_message(start, words, told):
    start("evaluate", *TINY, "windows=1", "jobs=1", *words).failed_with(*told)


@pytest.mark.slow  # the codec is compiled once more
def test_a_policy_plays_the_same_in_one_process_and_in_three(done, policy):
    words = (*TINY, "lineup.entries=[]", f"checkpoint={policy}", "windows=3")
    one = done("evaluate", *words, "jobs=1", folder="one")
    three = done("evaluate", *words, "jobs=3", folder="three")
    tables = [
        each.table()
        .sort_values("window", ignore_index=True)
        .drop(columns=["decision_ms_mean", "loop_wall_s"])  # wall time is never the same twice
        for each in (one, three)
    ]
    assert list(tables[0]["window"]) == [0, 1, 2]
    pd.testing.assert_frame_equal(*tables)


def test_a_wrong_word_leaves_an_older_comparison(start, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "comparison.csv").write_text("old")
    failed = start("evaluate", *TINY, FEW, "windows=1", "jobs=1", "agents.count=99")
    assert (failed.status, failed.text("comparison.csv")) == (1, "old") and "99" in failed.err


def test_evaluations_in_other_worlds_are_told_apart(done, start):
    for name, words in {
        "shared": ("network=max_min", "outages=failures"), "free": ("network=none",),
    }.items():  # fmt: skip
        entries = "lineup.entries=[{role: composite, overrides: ['scheduler=sjf,fifo']}]"
        words = (*TINY, *words, entries, "windows=2", "jobs=1", "page=false")
        one = done("evaluate", *words, folder=f"worlds/{name}")
    assert "communication is free" in one.text() and "servers fail" not in one.text()
    both = done("compare", f"sweep={one.folder.parent}", "page=false", folder="both")
    table = both.table()
    assert sorted(set(table["scheduler"].str.partition(" ")[2])) == [
        "[network=max_min outages=failures]", "[network=none]",
    ]  # fmt: skip
    assert len(table) == 8 and (both.folder / "jct_cdf.png").is_file()
    again = done("evaluate", *words, folder="worlds/again")
    failed = start("compare", f"sweep=[{one.folder},{again.folder}]", folder="twice")
    failed.failed_with("hold the same run")


def test_one_process_can_be_interrupted(tmp_path):
    folder = tmp_path / "run"
    program = Training("evaluate.py", (*TINY, FEW, "windows=400", "jobs=1"))
    with program.begun(folder) as process:
        wait_for((folder / "record.json").exists, process, 120)
        time.sleep(3)  # into the runs: 1,600 of them take minutes
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130, (tmp_path / "printed").read_text()
    assert not (folder / "comparison.csv").exists()
