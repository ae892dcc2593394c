"""`reproduce.py`: cells, resuming, limits of entries, files, errors."""

import json
import signal
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest

from gpuyard.evaluation.lineup import Contender
from gpuyard.evaluation.task import Task
from gpuyard.reproduction.runs import read_part
from sim.files import Labels
from tests.forking import run_program
from tests.launch.conftest import write_own
from tests.marl.trainings import Training, wait_for

QUICK = ("experiment=league", "debug=quick")
ONE = (*QUICK, "reproduce.cells=[[]]")  # entries are told of once all cells are composed
FEW = (
    "lineup.entries=["
    "{role: published, overrides: ['scheduler=fifo'], windows: 1, cells: [0]},"
    "{role: composite, overrides: ['scheduler=sjf,smallest_gang', 'forwarding=steal']},"
    "{role: global_queue, overrides: ['scheduler=srtf'], agents: 1, name: upper}]"
)
RESULTS = {
    "comparison.csv", "comparison.md", "league.csv", "league.md", "league.png", "ranks.csv",
    "ranks.png", "jct_bars.png", "curves.json", "report.html",
}  # fmt: skip


def parts(folder: Path) -> dict[str, int]:
    """Stored runs and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "parts").glob("*.json")}


def test_the_league_in_small_and_again(done):
    outcome = done("reproduce", *QUICK, FEW, "jobs=2")
    left = {path.name for path in outcome.folder.iterdir()}
    assert left >= RESULTS
    table = outcome.table()
    # 2 cells x 2 windows x 3, and fifo once; topologies that `quick` makes equal are one cell
    assert len(table) == 13
    assert set(table["workload"]) == {"venus_like", "philly_like"}
    assert set(table["topology"]) == {"small_leaf_spine"}
    assert set(table["jobs_finished"]) == {48}
    league = outcome.table("league.csv").set_index("scheduler")
    assert league.loc["upper", ["information", "agents", "runs"]].tolist() == ["oracle", 1, 4]
    assert league.loc["fifo+consolidated+own", ["fewer_runs", "runs"]].tolist() == [1, 1]
    ranks = outcome.table("ranks.csv")
    assert set(ranks["scheduler"]) == set(league.index) - {"fifo+consolidated+own"}
    assert ranks["mean_rank"].sum() == pytest.approx(6.0)  # 1 + 2 + 3
    assert set(ranks["blocks"]) == {4}  # two traces, two windows
    assert "fifo+consolidated+own †" in outcome.text("league.md")
    few = "Not on all windows and seeds that others ran: fifo+consolidated+own (1 of 2)."
    assert few in outcome.text()
    curves = outcome.read("curves.json")
    assert len(curves) == 2  # cells
    first = {each["name"]: each for each in curves[0]["curves"]}
    assert first["upper, one queue"]["windows"] == 2
    assert first["fifo+consolidated+own"]["windows"] == 1
    assert all(len(each["jct_s"]) == 100 * each["windows"] for each in first.values())
    assert all(len(each["queue_jobs"]) == 100 for each in first.values())
    page = outcome.text("report.html")
    assert f"Job completion times: {curves[0]['title']}" in page
    assert "fifo+consolidated+own (1 of 2 windows)" in page
    assert f"Use and queue over time: {curves[1]['title']}" in page
    rival = next(each["name"] for each in curves[0]["curves"] if "one queue" not in each["name"])
    assert f"The cluster over time: {rival}, {curves[0]['title']}, window 0" in page
    before = parts(outcome.folder)
    told = outcome.folder / "told.md"
    told.write_text("<!-- table: league -->\n<!-- end of table -->\n")
    again = done("reproduce", *QUICK, FEW, "jobs=2", "reproduce.page=null", f"into={told}")
    assert parts(outcome.folder) == before
    assert "| smallest_gang+consolidated+steal | " in told.read_text()
    assert "13 runs, 13 of them done before" in again.err
    pd.testing.assert_frame_equal(again.table(), table)


@pytest.mark.slow
def test_what_is_stored_is_taken_where_the_run_is_the_same(done):
    words = [*QUICK, FEW, "most_cells=1", "jobs=1"]
    done("reproduce", *words)
    assert "4 runs, 4 of them done before" in done("reproduce", *words, "windows=1").err
    assert "4 runs, 0 of them" in done("reproduce", *words, "windows=1", "seed=5").err


@pytest.mark.slow
def test_runs_that_fail_do_not_end_the_others(start, done):
    # a gang of 32 GPUs fits no partition of 16; the global queue can take it
    words = [*QUICK, FEW, "most_cells=1", "jobs=1", "workload.max_gang=64"]
    outcome = start("reproduce", *words)
    outcome.failed_with("5 of 7 runs failed", "failures.txt", "failed=skip")
    told = outcome.text("failures.txt")
    assert "fits none of the 4 partitions" in told and "window 1" in told
    rest = done("reproduce", *words, "failed=skip")
    assert set(rest.table("league.csv")["scheduler"]) == {"upper"}
    for name in ("league.md", "comparison.md"):
        assert "5 of 7 runs failed and are in no table: failures.txt." in rest.text(name)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(done, tmp_path):
    folder = tmp_path / "run"
    words = (*QUICK, FEW, "jobs=1", "windows=24")
    with Training("reproduce.py", words).begun(folder) as process:
        wait_for(lambda: len(parts(folder)) >= 5, process, 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130, (tmp_path / "printed").read_text()
    first = parts(folder)
    assert 5 <= len(first) < 145
    assert not (folder / "league.csv").exists()
    outcome = done("reproduce", *words)
    assert f"145 runs, {len(first)} of them done before" in outcome.err
    whole = parts(folder)
    assert len(whole) == len(outcome.table()) == 145
    assert first.items() <= whole.items()  # none was made again


FILLING = """
import resource
from sim.schedulers.orders import Fifo

class Own(Fifo):
    order_name = "filling"

    def reset(self, seed):
        super().reset(seed)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        # A run's part has 5,800 bytes; what is printed, a file here, has 800 and the folder's name.
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
"""


def beside_fifo(folder: Path, code: str, *words: str) -> CompletedProcess[str]:
    """`reproduce` in `folder`, of the class Own in `code` and of fifo."""
    choice = "_target_: own.Own\nplacer: ${placer}\nsharing: ${sharing}\nskip_blocked: true\n"
    write_own(folder, {"own.py": code, "mine/scheduler/own.yaml": choice})
    entries = "lineup.entries=[{role: composite, overrides: ['scheduler=fifo,own']}]"
    own = ("reproduce", *QUICK, entries, "most_cells=1", "hydra.run.dir=here", *words)
    done = run_program(["-m", "gpuyard", *own], cwd=folder)
    assert done.returncode == 1, done.stderr
    return done


def test_a_disk_that_fills_up_ends_it_and_no_scheduler_is_to_blame(tmp_path: Path):
    done = beside_fifo(tmp_path, FILLING, "jobs=1")
    assert "failed: lineup" not in done.stderr, done.stderr
    assert f"error: {tmp_path / 'here' / 'parts'}" in done.stderr
    assert ".json: File too large" in done.stderr
    assert not (tmp_path / "here" / "failures.txt").exists()


KILLED = """
import os
import sys
from sim.schedulers.orders import Fifo

class Own(Fifo):
    order_name = "killed"

    def reset(self, seed):
        if any("loky" in word for word in sys.orig_argv):
            os.kill(os.getpid(), 9)
"""


def test_a_worker_that_is_killed_is_told_with_how_to_go_on(tmp_path: Path):
    done = beside_fifo(tmp_path, KILLED, "jobs=2")
    assert "Traceback" not in done.stderr, done.stderr
    assert "error: a worker process ended" in done.stderr  # by what joblib finds out or not
    assert "let fewer run at once (jobs=N" in done.stderr and "\nto go on: " in done.stderr


def test_cells_that_differ_in_anything_else_are_told_apart(done):
    outcome = done(
        "reproduce", *QUICK, FEW, "windows=1", "jobs=1",
        'reproduce.cells=[["estimator.sigma=0.0,2.0"]]',
        "reproduce.paper=[{what: JCT, scheduler: sjf+consolidated+steal, against: upper,"
        " metric: jct_mean_s, claim: 0.69}]",
    )  # fmt: skip
    sigmas = ["estimator.sigma=0.0", "estimator.sigma=2.0"]
    assert set(outcome.table()["workload"]) == {f"venus_like [{each}]" for each in sigmas}
    claims = outcome.table("paper.csv")
    assert claims["cell"].tolist() == ["all", *sigmas]
    assert set(claims["claim"]) == {0.69} and "69" in outcome.text("paper.md")


def test_the_list_names_every_experiment_with_the_node():
    listed = run_program(["scripts/reproduce.py"])
    assert listed.returncode == 0, listed.stderr
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert "league" in names and "headline" not in names


@pytest.mark.parametrize(("words", "told"), [
    (("experiment=headline",), ("headline has no node `reproduce`", "league")),
    ((*ONE, "lineup.entries=[{role: published, overrides: ['scheduler=nobody,sjff']},"
      "{role: published, overrides: ['scheduler=fifo', 'placer=nowhere']}]"),
     ("entries[0] needs scheduler=nobody, scheduler=sjff", "did you mean sjf",
      "entries[1] needs placer=nowhere", "missing=skip")),
    ((*ONE, "lineup.entries=[{role: published, overrides: ['scheduler=fifo'], windows: 0}]"),
     ("entries[0].windows is 0",)),
    ((*ONE, "lineup.entries=[{role: published, overrides: ['scheduler=fifo'], cells: 3}]"),
     ("entries[0].cells is 3",)),
    ((*ONE, "lineup.entries=[{role: published, overrides: ['scheduler=fifo'], name: a},"
      "{role: published, overrides: ['scheduler=sjf'], name: a}]"),
     ("entries[0]", "entries[1]", "same scheduler a")),
    ((*QUICK, FEW, "jobs=0"), ("jobs is 0",)),
    ((*QUICK, FEW, "failed=never"), ("failed is 'never'",)),
    ((*QUICK, FEW, "most_cells=0"), ("most_cells is 0",)),
    ((*QUICK, FEW, "fresh=yes"), ("fresh is 'yes'; it must be true or false",)),
    ((*QUICK, FEW, "level=5e-5"), ("level is 5e-05; it must lie from 0.0001 to 0.9999",)),
    ((*QUICK, FEW, "reproduce.cells=[3]"), ("cells[0] is 3",)),
    (("experiment=dally_batch", "debug=quick", FEW, "into=docs/results/dally.md"),
     ("into: no row and column of reproduce.page is of schedulers",)),
    ((*QUICK, FEW, "reproduce.paper=3"), ("reproduce.paper is 3; it must be a list of claims",)),
])  # fmt: skip
def test_what_cannot_be_is_one_message(start, words, told):
    start("reproduce", *words).failed_with(*told)


def test_runs_of_earlier_versions_are_of_the_part_that_is_asked_for(tmp_path):
    """Their files have no part; new runs on the same windows are compared with them."""
    labels = Labels(
        scheduler="fifo", topology="t", workload="w", load=0.9, agents=1, seed=0, window=0,
        information="none", interference_info="none", physics="off", role="composite",
    )  # fmt: skip
    older = {key: value for key, value in asdict(labels).items() if key != "part"}
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"labels": older, "metrics": {"jct_mean_s": 1.0}}))
    contender = Contender(place="", composition="{}", role="composite", agents=None, name=None)
    row = read_part(path, Task(setting="{}", contender=contender, part="test", window=0))
    assert row is not None and row.labels == replace(labels, part="test")


def test_tuning_names_the_best_setting_and_a_broken_part_is_named(start, done):
    words = (
        "reproduce", "experiment=baselines", "debug=quick", "jobs=1", "most_cells=1",
        "lineup.entries=[{role: reference, name: las, agents: 1,"
        " overrides: ['scheduler=las', 'scheduler.quantum_gpu_s=60,3600']}]",
    )  # fmt: skip
    outcome = done(*words)
    stored = sorted((outcome.folder / "parts").iterdir())[0]
    stored.write_text("{")
    start(*words).failed_with(stored.name)
    done(*words, "fresh=true")
    assert json.loads(stored.read_text())["labels"]
    table = outcome.table("tuned.csv")
    assert table["baseline"].tolist() == ["las", "las"]
    assert set(table["setting"]) == {"quantum_gpu_s=60", "quantum_gpu_s=3600"}
    assert table["best"].tolist() == [1, 0] and table["ratio"].is_monotonic_increasing
    assert table["runs"].tolist() == [2, 2]
    assert "Settings of each baseline, validation windows" in outcome.text("tuned.md")
    assert "| `las`, 3,600 GPU s a quantum | " in outcome.text("page.md")
    page = outcome.text("report.html")
    assert "Job completion times: " in page and "las: quantum_gpu_s=60" in page


def test_quick_serves_an_evaluation_too(done):
    few = FEW.replace(", windows: 1, cells: [0]", "")
    table = done("evaluate", "experiment=headline", "+debug=quick", few, "jobs=1").table()
    assert len(table) == 4 * 2 and set(table["topology"]) == {"small_leaf_spine"}
