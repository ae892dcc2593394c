"""`learn.py`: it climbs, writes weights that play, goes on where it stopped, and refuses."""

import csv
import json
import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml

from sim.scoring.weights import FORWARD_FEATURES
from tests.marl.loopback import command_of, of_session
from tests.marl.trainings import Training, wait_for
from tests.scripts.conftest import Outcome

SMALL = ("topology=small_leaf_spine", "workload.max_gang=8", "agents.count=4")
TINY = (
    *SMALL, "workload.num_jobs=100", "validation_windows=6", "held_out.windows=6", "pairs=12",
    "standard_windows=1", "minutes=null", "validate_every=2", "checkpoint_every=1", "jobs=1",
    "page=false",
)  # fmt: skip
MIX = "mix=[{agents: 4, load: 0.9, windows: 1}, {agents: 2, load: 1.1, windows: 1}]"


def curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "curve.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_zero_it_climbs_in_seconds(done):
    found = done("learn", *TINY, "page=true", "updates=30", "name=mine", folder="a climb. it")
    first = "first the beginning and the reference play 6 validation windows each"
    assert found.err.index("untuned plays 1 window, for what") < found.err.index(first)
    assert found.err.index(first) < found.err.index("update 0, ")
    metrics = found.read()
    assert metrics["ratio_of_mean_jct"]["zero"]["high"] < 0.9
    assert (metrics["updates"], metrics["runs"]) == (30, 30 * 24)
    assert (found.folder / "curve.png").is_file()
    page = found.text("report.html")
    for shown in ("Learning curve", "Held out", "updates=30", "durations kept", "All metrics",
                  "Jobs by server: what was learned, held-out window",
                  "Jobs by server: look_ahead, held-out window"):  # fmt: skip
        assert shown in page
    assert f"{metrics['ratio_of_mean_jct']['zero']['ratio']:.4g}" in page
    assert float(curve(found.folder)[-1]["to_begin"]) < 0.9
    text = found.text("mine.yaml")
    assert text.startswith("# python scripts/learn.py topology=small_leaf_spine")
    assert np.shape(yaml.safe_load(text)["layers"]["start"]["inner"]) == (16, 20)

    words = shlex.split(found.out.split("play them with ")[1].splitlines()[0])
    run = done("simulate", *SMALL, "workload.num_jobs=40", *words, folder="run")
    assert "linear_score" in run.out


def test_it_learns_to_suspend_in_several_settings_at_once(done):
    mix = MIX.replace("windows: 1", "windows: 2", 1)
    found = done(
        "learn", *TINY, "begin=zero_suspending", "updates=6", mix, "name=mine",
        "hide=[forwards.prolongs]", folder="suspend",
    )  # fmt: skip
    assert most_of(found, "zero_suspending") < 1.0
    assert "hide is for what learns: begin=zero_suspending reads all columns" in found.err
    learned = yaml.safe_load(found.text("mine.yaml"))
    assert np.shape(learned["layers"]["suspend"]["inner"]) == (8, 15)
    assert any(learned["suspend"].values())
    assert learned["start"]["prolongs"] != 0.0
    assert learned["forward"]["prolongs"] == 0.0
    inner = np.array(learned["layers"]["forward"]["inner"])
    hidden = FORWARD_FEATURES.index("prolongs")
    assert not inner[:, hidden].any() and np.delete(inner, hidden, axis=1).all()


BRANCHES = (
    "algo=branches", "learns=network", "begin=zero", "algo.windows=4", "algo.points=10",
    "algo.search_windows=2", "algo.epochs=20", "algo.batch=16", "validate_every=1",
    "held_out.windows=24",
)  # fmt: skip


PAIRED_PPO = (
    "algo=paired_ppo", "learns=network", "begin=zero", "algo.windows=2", "algo.points=20",
    "algo.batch=16", "algo.learning_rate=0.03", "algo.clip=1", "validate_every=4",
)  # fmt: skip
DISTIL = (
    "algo=distil", "learns=network", "begin=zero", "rules.datacenter=true", "algo.windows=2",
    "algo.share=0.3", "algo.epochs=4", "algo.batch=32", "hide=[holds_up]", "validate_every=1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "stop", "most"),
    [(BRANCHES, "updates=1", 0.95), (PAIRED_PPO, "minutes=1e-4", 0.95), (DISTIL, "updates=1", 0.9)],
    ids=["branches", "paired_ppo", "distil"],
)
def test_a_network_is_taught_and_goes_on_where_it_stopped(done, given, stop: str, most: float):
    """By branches, by PPO with paired advantages, by a score while it sees the datacenter."""
    whole = done("learn", *TINY, *given, "updates=2", folder="whole")
    assert most_of(whole) < most
    first = done("learn", *TINY, *given, "updates=2", stop, folder="first")
    assert [row["update"] for row in curve(first.folder)] == ["0", "1"]
    resumed = done("learn", *TINY, *given, "updates=2", f"resume={first.folder}", folder="resumed")
    assert np.array_equal(*means(whole.folder, resumed.folder))
    if given is not DISTIL:
        return
    policy = whole.folder / "policy"
    told = json.loads((policy / "policy.json").read_text())
    assert told["rules"]["datacenter"] and told["policy"]["datacenter"]
    assert "marl" in played(done, policy)
    on = done("learn", *TINY, "learns=network", f"begin={policy}", "minutes=0", folder="on")
    assert on.read()["ratio_of_mean_jct"][str(policy)]["ratio"] == 1.0  # it goes on from there
    begun, start = policy / "policy.pt", on.folder / "policy" / "start" / "policy.pt"
    assert start.read_bytes() == begun.read_bytes()
    few = "lineup.entries=[{role: reference, overrides: ['scheduler=fifo']}]"
    words = (*SMALL, "workload.num_jobs=40", "windows=1", "jobs=1", "rivals=false", few)
    table = done("evaluate", *words, f"checkpoint={on.folder / 'policy'}", folder="all").table()
    jct_s = table.set_index("scheduler")["jct_mean_s"]
    assert jct_s["marl_start"] == jct_s["marl"] > 0  # nothing was learned


SPLIT = "workload.split={train: 0.6, validation: 0.2, test: 0.2}"


def sparse_file(folder: Path, jobs: int) -> list[str]:
    """Words for a file whose disjoint windows are few: `jobs` / 160 stretches of four."""
    path = folder / "jobs.csv"
    rows = (f"j{k},{97 * k},{(1, 2, 8)[k % 3]},{60 + k * k % 7919}\n" for k in range(jobs))
    path.write_text("job_id,submit_s,num_gpus,duration_s\n" + "".join(rows))
    return ["workload=csv", f"workload.path={path}", "workload.windows_from=disjoint",
            "workload.num_jobs=40", "workload.thin=4"]  # fmt: skip


@pytest.mark.parametrize("given", [(), BRANCHES], ids=["es", "branches"])
def test_of_a_file_the_windows_are_played_that_there_are(done, tmp_path: Path, given):
    words = (*sparse_file(tmp_path, 3000), SPLIT)
    found = done("learn", *TINY, *given, *words, "standard_windows=99", "updates=1")
    told = "part 'validation' has 12 windows, fewer than validation_windows and held_out ask"
    assert f"{told} for: 0 to 5 are for the curve, 6 to 11 held out" in found.err
    assert "on 6 held-out windows (from 6 on, of 3 stretches of time)" in found.out
    held_out = found.read()["held_out"]
    assert (held_out["first"], len(held_out["ln_mean_jct_s"])) == (6, 6)


def test_a_file_with_too_few_windows_to_validate_is_refused(start, tmp_path: Path):
    words = (*sparse_file(tmp_path, 400), SPLIT)
    found = start("learn", *TINY, *words, "workload.thin=2", "updates=1")
    found.failed_with("has 2 windows", "learning needs 3", "workload.windows_from=random")


def most_of(learned: Outcome, begin: str = "zero") -> float:
    """The upper end of the ratio of mean JCTs to the beginning's."""
    return learned.read()["ratio_of_mean_jct"][begin]["high"]


def played(done, policy: Path) -> str:
    words = (*SMALL, "workload.num_jobs=40", f"checkpoint={policy}")
    return done("simulate", "scheduler=marl", *words, folder="run").out


@pytest.mark.parametrize("algo", ["branches", "paired_ppo", "distil"])
def test_rounds_learn_from_several_settings_at_once(done, algo: str):
    given = ["learns=network", f"algo={algo}", "algo.windows=6", "algo.batch=16", "updates=1"]
    given += {"branches": ["algo.search_windows=8"], "distil": ["algo.share=0.3"]}.get(algo, [])
    given += [] if algo == "distil" else ["algo.points=10"]
    mix = MIX.replace("agents: 2", "agents: 1")  # whose partition has two racks
    words = ("begin=zero", "rules.datacenter=true", "held_out.windows=24")
    found = done("learn", *TINY, *given, mix, *words)
    assert found.read()["updates"] == 1
    assert most_of(found) < 1.05


LEARNING = Training("learn.py", TINY)


def means(*folders: Path) -> list[np.ndarray]:
    return [np.load(folder / "checkpoint.npz")["mean"] for folder in folders]


@pytest.mark.slow
@pytest.mark.ray
def test_resumed_or_with_workers_it_learns_the_same(done):
    whole = done("learn", *TINY, "updates=4", "jobs=2", folder="whole")
    first = done("learn", *TINY, "updates=4", "minutes=0", folder="first")
    assert [row["update"] for row in curve(first.folder)] == ["0"]
    resumed = done("learn", *TINY, "updates=4", f"resume={first.folder}", folder="resumed")
    assert np.array_equal(*means(whole.folder, resumed.folder))


def test_a_network_is_learned_and_played(done):
    words = (*TINY, "learns=network", "begin=zero", "updates=12")
    whole = done("learn", *words, "page=true", folder="whole")
    policy = whole.folder / "policy"
    assert curve(whole.folder)[0]["to_begin"] == "1.0"  # the untrained network
    assert f"play it with scheduler=marl checkpoint={policy}" in whole.out
    assert most_of(whole) < 1.0
    assert (whole.folder / "curve.png").is_file()
    first = done("learn", *words, "minutes=0", "resume=auto", folder="first")
    begun, weights = means(first.folder), first.folder / "policy" / "policy.pt"
    before = weights.read_bytes()
    assert str(first.read()["share_of_gap_closed"]) == "0.0"  # nothing was learned; no -0.0
    resumed = done("learn", *words, "page=true", "resume=auto", folder="first")
    learned = means(whole.folder, first.folder)
    assert np.array_equal(*learned) and not np.array_equal(learned[0], begun[0])
    assert (policy / "policy.pt").read_bytes() == weights.read_bytes() != before
    assert (first.folder / "report.html").is_file()
    again = done("learn", *words, "minutes=0", folder="first")
    told = f"{first.folder} holds what was learned before, which is overwritten"
    assert told in again.err and told not in first.err + resumed.err
    assert (whole.folder / "report.html").is_file()
    assert not (first.folder / "report.html").exists()
    for resumed, warns in ((whole.folder, True), (first.folder, False)):
        other = done("learn", *words, f"resume={resumed}", folder="first")
        assert (told in other.err) is warns
    assert "marl" in played(done, policy)


@pytest.mark.slow
@pytest.mark.ray
def test_a_worker_that_is_killed_in_an_update_changes_nothing(done, tmp_path: Path):
    alone = done("learn", *TINY, "updates=20", folder="alone")
    with LEARNING.begun(tmp_path / "killed", "updates=20", "jobs=2") as process:
        wait_for((tmp_path / "killed" / "checkpoint.npz").is_file, process, 200)
        found: list[int] = []
        while not found:
            assert process.poll() is None
            calls = [pid for pid in of_session(process.pid) if "Worker.call" in command_of(pid)]
            found = calls[:1]
        os.kill(found[0], signal.SIGKILL)
        status = process.wait(timeout=120)
    told = (tmp_path / "printed").read_text()
    assert status == 0, told
    assert "a worker was lost and its share is done again" in told
    assert np.array_equal(*means(alone.folder, tmp_path / "killed"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, start, number: signal.Signals):
    folder = tmp_path / "run"
    with LEARNING.begun(folder, "updates=100000", "name=kept") as process:
        wait_for((folder / "checkpoint.npz").is_file, process, 200)
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    assert f"resume={folder}" in (tmp_path / "printed").read_text()
    assert "Stopped on the way" in (folder / "kept.yaml").read_text()
    longer = start("learn", *TINY, "updates=9", "algo.first_step=0.3", f"resume={folder}")
    longer.failed_with("belongs to another setting: algo.first_step was 0.15, is 0.3")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pairs=1",), ("pairs is 1",)),
        (("units.start=-1",), ("units.start is -1",)),
        (("jobs=0",), ("jobs is 0",)),
        (("jobs=2", "ray=cluster", "ray.address=nowhere"), ("ray.address is 'nowhere'",)),
        (("jobs=2", "ray=cluster", "ray.address=a:1", "ray.code=installed"), ("ray.code",)),
        (("updates=null",), ("minutes and updates",)),
        (("algo=branches",), ("add learns=network",)),
        (("algo=ppo",), ("gpuyard train",)),
        (("algo=branches", "learns=network", "algo.step=0"), ("algo.step is 0", "above 0")),
        (("algo=paired_ppo", "learns=network", "algo.clip=0"), ("algo.clip is 0", "above 0")),
        (("algo=distil", "learns=network", "algo.share=2"), ("algo.share is 2", "at most 1")),
        (("algo.first_step=-1",), ("algo.first_step is -1; it must be a finite number",)),
        (("algo=distil", "learns=network", "algo.teacher=nobody"), ("nobody",)),
        (("updates=-1",), ("updates is -1",)),
        (("held_out.first=3",), ("held_out.first is 3",)),
        (("learns=nothing",), ("learns is 'nothing'",)),
        (("learns=network", "graph.hidden_dim=0"), ("graph.hidden_dim is 0",)),
        (("learns=network", "rules.granularity=some"), ("rules.granularity", "some")),
        (("learns=network", "rules.sharing=off"), ("rules.sharing is 'off'", "true or false")),
        (("learns=network", "units.start=3"), ("units.start=3", "learns=score")),
        (("learns=network", "begin=pretrained", "graph.head_dim=8"), ("=8", "its own")),
        (("graph.head_dim=8",), ("graph.head_dim=8", "learns=network")),
        (("name=a/b",), ("name is 'a/b'", "without /")),
        (("hide=prolongs",), ("hide is 'prolongs'",)),
        (("hide=[speed]",), ("hide has 'speed'", "forwards.prolongs")),
        (("learns=network", "hide=[spread]"), ("hide has 'spread'", "holds_up")),
        (("learns=network", "graph.reach=rack"), ("graph.reach is 'rack'", "cluster or server")),
        (("learns=network", "scheduler.use_durations=false"), ("scheduler.use_durations",)),
        (("scheduler=dally",), ("linear_score",)),
        (("scheduler=sjf",), ("this choice of scheduler", "does not have")),
        (("mix=[{agents: 2, load: 1, windows: 1, gpu_type: t1000}]",), ("t1000",)),
        (("begin=nobody",), ("begin is 'nobody'", "conf/linear_weights")),
        (("begin=headlin",), ("begin is 'headlin'", "did you mean headline?")),
        (("reference=look_ahed",), ("reference is 'look_ahed'", "did you mean look_ahead?")),
        (("begin=conf/learn.yaml",), ("conf/learn.yaml",)),
        (("resume=nowhere",), ("nowhere", "checkpoint.npz")),
    ],
)
def test_what_cannot_be_is_one_message(start, words, told):
    start("learn", *TINY, "updates=1", *words).failed_with(*told)
