"""Sweeps: what is finished is skipped, tables tell what was swept."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from yaml import YAMLError

from gpuyard.evaluation.compare import all_assumed, gather, pooled_jct_s
from sim.files import ReportError
from tests.scripts.conftest import ROOT, call

POINTS = ("scheduler=fifo,sjf", "seed=1,2")
NAMES = [f"{at}_{name}_venus_like" for at, name in enumerate(("fifo", "fifo", "sjf", "sjf"))]
FEW_JOBS = ("-m", "topology=small_leaf_spine", "workload.num_jobs=40")


def stamps(sweep: Path) -> dict[str, int]:
    """When each point's metrics were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in sweep.glob("*/metrics.json")}


def finished(sweep: Path) -> list[str]:
    return sorted(path.parent.name for path in sweep.glob("*/finished.json"))


@pytest.fixture(scope="module")
def one_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept") / "sweep"
    outcome = call("simulate", *FEW_JOBS, *POINTS, folder=folder, sweep=True)
    assert outcome.status == 0, outcome.err
    return folder


@pytest.fixture
def swept(one_sweep: Path, tmp_path: Path) -> Path:
    """A copy of a finished sweep."""
    return Path(shutil.copytree(one_sweep, tmp_path / "sweep"))


def test_points_are_compared_in_the_order_of_the_grid(swept: Path):
    (swept / NAMES[0]).rename(swept / f"10_{NAMES[0]}")
    found = [each.folder.name for each in gather([swept], leave_out=swept)]
    assert found == [*NAMES[1:], f"10_{NAMES[0]}"]


def test_m_may_stand_among_the_overrides_and_a_point_written_to_elsewhere_is_refused(
    tmp_path: Path, start: Callable
):
    words = ("simulate", FEW_JOBS[1], "-m", FEW_JOBS[2], "scheduler=fifo", "seed=1")
    (tmp_path / "sweep" / NAMES[0]).mkdir(parents=True)
    held = os.open(tmp_path / "sweep" / NAMES[0], os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused = start(*words, folder="sweep", sweep=True)
    assert refused.status == 1 and "of its own (hydra.sweep.dir=DIR)" in refused.err
    os.close(held)
    assert finished(start(*words, folder="sweep", sweep=True).folder) == NAMES[:1]


def test_only_what_is_not_finished_runs_again(swept: Path, done: Callable):
    assert finished(swept) == NAMES
    before = stamps(swept)
    (swept / NAMES[2] / "finished.json").unlink()  # as if it had been cut off at its very end
    again = done(
        "simulate", *FEW_JOBS, *POINTS, "hydra/launcher=joblib", "hydra.launcher.n_jobs=1",
        folder="sweep", sweep=True,
    )  # fmt: skip
    after = stamps(swept)
    assert [point for point in before if after[point] != before[point]] == [NAMES[2]]
    assert again.err.count("is finished and skipped") == 3
    assert finished(swept) == NAMES


def test_another_sweep_does_not_overwrite_what_is_finished(swept: Path, start: Callable):
    before = stamps(swept)
    other = start(
        "simulate", *FEW_JOBS, "scheduler=fifo,sjf", "seed=3,4", folder="sweep", sweep=True
    )
    assert other.status == 1
    assert "sweep/0_fifo_venus_like holds a finished point of another configuration" in other.err
    assert "hydra.sweep.dir=DIR" in other.err
    turned = start("simulate", *FEW_JOBS, "scheduler=las", "seed=1,2", folder="sweep", sweep=True)
    assert turned.status == 1 and "0_fifo_venus_like holds a finished point" in turned.err
    assert stamps(swept) == before


@pytest.mark.usefixtures("swept")
def test_a_run_of_its_own_in_a_points_folder_unmarks_it(done: Callable):
    """The mark belongs to the configuration beside it, not to the folder."""
    own = done("simulate", *FEW_JOBS[1:], "scheduler=las", folder=f"sweep/{NAMES[0]}")
    assert own.read("record.json")["scheduler"].startswith("las")
    done("simulate", *FEW_JOBS, *POINTS, folder="sweep", sweep=True)
    assert own.read("record.json")["scheduler"].startswith("fifo")


@pytest.mark.slow
def test_a_point_that_failed_is_tried_again(done: Callable, start: Callable, trace: Path):
    whole = trace.read_text()
    words = ("-m", "workload=csv", f"workload.path={trace}", "scheduler=fifo", "seed=1,2")
    trace.write_text(whole.replace("a,0,4,10", "a,0,-4,10"))
    failed = start("simulate", *words, folder="sweep", sweep=True)
    assert failed.status == 1
    assert finished(failed.folder) == []
    trace.write_text(whole)
    again = done("simulate", *words, folder="sweep", sweep=True)
    assert finished(again.folder) == ["0_fifo_csv", "1_fifo_csv"]
    assert "skipped" not in again.err


@pytest.mark.slow
def test_a_killed_sweep_loses_only_the_points_in_flight(tmp_path: Path, done: Callable):
    sweep, seeds = tmp_path / "sweep", 8
    words = ("simulate", *FEW_JOBS, f"seed=range({seeds})", "hydra/launcher=joblib",
             "hydra.launcher.n_jobs=1")  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "scripts/simulate.py", *words[1:], f"hydra.sweep.dir={sweep}"], cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(finished(sweep)) < 2 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=30)
    kept, before = finished(sweep), stamps(sweep)
    assert 2 <= len(kept) < seeds
    again = done(*words, folder="sweep", sweep=True)
    assert len(finished(sweep)) == seeds
    assert [point for point in kept if stamps(sweep)[point] != before[point]] == []
    assert again.err.count("is finished and skipped") == len(kept)


@pytest.mark.slow
def test_submitit_runs_the_points_and_skips_them_too(done: Callable):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    words = ("simulate", *FEW_JOBS, "seed=1,2", "hydra/launcher=submitit_local")
    first = done(*words, folder="sweep", sweep=True)
    assert finished(first.folder) == NAMES[:2]
    before = stamps(first.folder)
    done(*words, folder="sweep", sweep=True)
    assert stamps(first.folder) == before


def compared(done: Callable, folder: Path, *words: str) -> tuple[list[str], str]:
    """Names of the schedulers in the table of the runs in a folder, and its text."""
    outcome = done("compare", f"sweep={folder}", *words, folder="table")
    return sorted(outcome.table()["scheduler"]), outcome.text()


@pytest.mark.slow
def test_a_table_tells_what_was_swept_where_no_column_does(done: Callable):
    swept = done(
        "simulate", *FEW_JOBS, "scheduler=sjf", "workload.max_gang=4,8", "seed=1,2",
        folder="sweep", sweep=True,
    ).folder  # fmt: skip
    names = [f"sjf+consolidated [workload.max_gang={gang}]" for gang in (4, 4, 8, 8)]
    assert compared(done, swept)[0] == names
    # a point in flight: the others keep their names
    shutil.rmtree(swept / "3_sjf_venus_like")
    assert compared(done, swept)[0] == names[:3]


def test_a_value_said_in_two_ways_is_one_setting(done: Callable, trace: Path):
    spaced = trace.with_name("my jobs.csv")
    spaced.write_text(trace.read_text().replace("c,2,8,0", "c,2,8,90"))
    told = ((f"'{spaced}'",), (spaced, "placer=consolidated"), (trace,), (f"'{trace}'",))
    for at, (path, *default) in enumerate(told):
        words = ("workload=csv", f"workload.path={path}", f"seed={at % 2}", *default)
        done("simulate", FEW_JOBS[1], "scheduler=sjf", *words, folder=f"all/{at}")
    names, text = compared(done, trace.parent / "all")
    assert names == [f"sjf+consolidated [workload.path={path}]"
                     for path in (trace, trace, spaced, spaced)]  # fmt: skip
    assert f"| scheduler | {trace} | {spaced} |" in text


def test_rules_of_one_name_are_no_seeds_of_each_other(done: Callable, tmp_path: Path):
    """But runs that differ in their seed, and in what they write, are."""
    told = (("scheduler=las", "scheduler.quantum_gpu_s=100"), ("scheduler=fifo",),
            ("scheduler=las", "scheduler.quantum_gpu_s=1e6", "seed=1"),
            ("scheduler=fifo", "seed=1", "page=false"))  # fmt: skip
    for at, words in enumerate(told):
        done("simulate", *FEW_JOBS[1:], *words, folder=f"all/{at}")
    las = [f"las+consolidated [scheduler.quantum_gpu_s={value}]" for value in ("100", "1e6")]
    assert compared(done, tmp_path / "all")[0] == ["fifo+consolidated"] * 2 + las


def test_schedulers_that_met_other_jobs_stand_apart_and_missing_runs_are_told(
    done: Callable, trace: Path
):
    told = (("scheduler=sjf",), ("scheduler=fifo",), ("scheduler=fifo", "seed=1"),
            ("scheduler=las", "workload.window.end_s=2"))  # fmt: skip
    for at, words in enumerate(told):
        given = ("workload=csv", f"workload.path={trace}", "workload.strict=false", *words)
        done("simulate", FEW_JOBS[1], *given, folder=f"all/{at}")
    _, text = compared(done, trace.parent / "all")
    assert "| scheduler | 2 | - |" in text
    assert "Not on all windows and seeds that others ran: sjf+consolidated (1 of 2)." in text
    (trace.parent / "all" / "1" / "metrics.json").unlink()  # as a run leaves it that failed
    cut = done("compare", f"sweep={trace.parent / 'all'}", folder="cut")
    assert "1 holds no result" in cut.err and "3 runs from 3 folders" in cut.out


def test_parts_of_a_trace_are_no_pair_whoever_wrote_them(done: Callable, tmp_path: Path):
    """The first record is of a version that had no such label."""
    for scheduler, part in (("sjf", "train"), ("fifo", "test")):
        words = (*FEW_JOBS[1:], f"scheduler={scheduler}", f"part={part}")
        done("simulate", *words, folder=f"all/{part}")
    record = tmp_path / "all" / "train" / "record.json"
    told = json.loads(record.read_text())
    assert told.pop("part") == "train"
    record.write_text(json.dumps(told))
    _, text = compared(done, tmp_path / "all", "ours=sjf+consolidated")
    assert "mean JCT" in text and ", part train\n" in text and ", part test\n" in text
    assert "ours / theirs" not in text


def test_what_runs_assumed_of_durations_does_not_contradict_itself():
    blind, told = "durations unknown to the scheduler", "durations: noisy predictions, sigma 1"
    assert all_assumed([(blind, "load 0.9"), (told, "load 0.9")]) == ("load 0.9", told)
    assert all_assumed([(blind,), (blind, "x")]) == (blind, "x")


def test_links_to_runs_are_runs_and_broken_files_are_named(done: Callable, tmp_path: Path):
    for scheduler in ("sjf", "fifo"):
        done("simulate", *FEW_JOBS[1:], f"scheduler={scheduler}", folder=f"made/{scheduler}")
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "made" / "sjf", kept / "sjf")
    (kept / "fifo").symlink_to(tmp_path / "made" / "fifo", target_is_directory=True)
    (kept / "sjf" / "up").symlink_to(kept, target_is_directory=True)  # nobody goes round for ever
    found = gather([kept], leave_out=tmp_path)
    assert [each.folder for each in found] == [kept / "fifo", kept / "sjf"]
    for name, text in (("jobs.parquet", "PAR1"), ("config.yaml", "a: [1"), ("record.json", "[1]")):
        (kept / "sjf" / name).write_text(text)
        with pytest.raises((ReportError, YAMLError), match=f"sjf/{name}"):
            pooled_jct_s(gather([kept], leave_out=tmp_path))
