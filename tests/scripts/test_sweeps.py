"""Sweeps: what is finished is skipped, tables tell what was swept; a search inside one run."""

import csv
import fcntl
import json
import math
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
from marl.rllib.search import SearchError, SearchSpec
from sim.files import ReportError
from tests.marl.trainings import TINY as SMALL
from tests.marl.trainings import Training, wait_for
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
        done(
            "simulate",
            *FEW_JOBS[1:],
            f"scheduler={scheduler}",
            f"part={part}",
            folder=f"all/{part}",
        )
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


TINY = (*SMALL, "algo.iterations=4", "ray.num_envs_per_env_runner=2", "warm_start=none",
        "validate_every=2")  # fmt: skip
RATES = "tune.space=[{key: algo.learning_rate, type: grid, values: [1e-4, 1e-2]}]"


def spec(*space: object, **given: object) -> SearchSpec:
    numbers = {"samples": 1, "max_concurrent": None, "grace_iterations": None}
    return SearchSpec(**numbers | {"space": list(space), "reduction_factor": 3} | given)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"key": "seed"}, r"tune\.space\[0\] .* must have a key and a type"),
        ({"key": "seed", "type": "gird", "values": [1]}, "one of grid, choice"),
        ({"key": "seed", "type": "grid", "low": 1}, "type grid takes key, type, values"),
        ({"key": "seed", "type": "grid", "values": 3}, r"values is 3; it must be a list"),
        ({"key": "x", "type": "uniform", "low": 2, "high": 1}, "low is 2, high 1"),
        ({"key": "x", "type": "loguniform", "low": 0, "high": 1}, "loguniform positive"),
        ({"key": "x", "type": "uniform", "low": 0, "high": math.inf}, "low is 0, high inf"),
        ({"key": "x", "type": ["grid"], "values": [1]}, "one of grid, choice"),
        ({"key": "x", "type": "randint", "low": 0.5, "high": 2}, "randint takes whole ones"),
    ],
)
def test_a_space_that_cannot_be_searched_is_told(entry: dict, told: str):
    with pytest.raises(SearchError, match=told):
        spec(entry)


@pytest.mark.parametrize("key", ["samples", "max_concurrent", "grace_iterations"])
def test_a_number_that_is_too_small_is_told(key: str):
    with pytest.raises(SearchError, match=rf"tune\.{key} is 0"):
        spec({"key": "seed", "type": "grid", "values": [1]}, **{key: 0})


def test_a_key_that_would_be_searched_twice_is_told():
    entry = {"key": "seed", "type": "grid", "values": [1]}
    with pytest.raises(SearchError, match="space has the key seed 2 times; keep one"):
        spec(entry, entry)


@pytest.mark.parametrize(
    ("words", "told"),
    [(("resume=earlier",), "goes on in its own folder: use resume=auto hydra.run.dir=earlier"),
     (("tune.space=[{key: algo, type: grid, values: [1]}]",), "key algo, a section; name a key")],
)  # fmt: skip
def test_a_search_that_cannot_go_on_or_sets_a_section_is_told(
    start: Callable, words: tuple[str, ...], told: str
):
    start("train", *TINY, "tune=grid", *words).failed_with(told)


def test_going_on_with_another_search_is_refused(start: Callable, tmp_path: Path):
    folder = tmp_path / "search"
    (folder / "tune").mkdir(parents=True)
    earlier = "tune: {_target_: marl.rllib.search.SearchSpec, space: [], samples: 2}"
    (folder / "config.yaml").write_text(earlier)
    outcome = start("train", *TINY, "tune=grid", RATES, "resume=auto", folder="search")
    outcome.failed_with(f"{folder} holds a search with another tune.space; repeat the words")


@pytest.mark.slow
def test_a_key_that_nobody_reads_is_told_before_any_trial(start: Callable):
    wrong = "tune.space=[{key: algo.learning_rat, type: grid, values: [1e-4]}]"
    outcome = start("train", *TINY, "tune=grid", wrong)
    outcome.failed_with("algo.learning_rat", "did you mean algo.learning_rate?")
    assert not (outcome.folder / "trials").exists()


@pytest.mark.slow
@pytest.mark.ray
def test_a_search_writes_a_table_and_its_trials_compare(done: Callable, tmp_path: Path):
    old = tmp_path / "search" / "trials" / "old"  # of an earlier search
    for each in (old, tmp_path / "search" / "tune"):
        each.mkdir(parents=True)
    found = done("train", *TINY, "tune=grid", RATES, folder="search")
    rows = list(csv.DictReader((found.folder / "tune.csv").open()))
    assert sorted(float(row["algo.learning_rate"]) for row in rows) == [1e-4, 1e-2]
    judged = [float(row["best_jct_s"]) for row in rows]
    assert judged == sorted(judged)
    assert {row["iterations"] for row in rows} == {"4"}
    assert f"with algo.learning_rate={rows[0]['algo.learning_rate']}" in found.out
    assert not old.exists()
    for row in rows:
        folder = found.folder / "trials" / row["trial"]
        rate = float(row["algo.learning_rate"])
        record = json.loads((folder / "record.json").read_text())
        assert f"algo.learning_rate={rate:.6g}" in record["overrides"]
        assert (folder / "policy" / "policy.pt").is_file()
    compared = done("compare", f"sweep={found.folder}", folder="table")
    assert set(compared.table()["scheduler"]) == {
        f"marl [algo.learning_rate={rate}]" for rate in ("0.0001", "0.01")
    }
    again = done("train", *TINY, "tune=grid", RATES, "resume=auto", folder="search")
    assert list(csv.DictReader((found.folder / "tune.csv").open())) == rows  # all were finished
    assert "best validation JCT" in again.out


@pytest.mark.slow
@pytest.mark.ray
def test_a_trial_that_fails_is_named_and_the_status_is_1(start: Callable):
    found = start("train", *TINY, "tune=grid", RATES.replace("1e-2", "1e20"), folder="search")
    rows = list(csv.DictReader((found.folder / "tune.csv").open()))
    assert "best validation JCT" in found.out
    assert found.status == 1
    assert f"error: 1 of 2 trials failed: {rows[1]['trial']}; tune.csv says why" in found.err


RANDOM = ("tune=random", "tune.samples=4", "tune.grace_iterations=2", "tune.reduction_factor=2",
          "policy.prior_scale=0")  # fmt: skip


@pytest.mark.slow
@pytest.mark.ray
def test_an_interrupted_search_goes_on_where_it_was(done: Callable, tmp_path: Path):
    """Random points and early stopping; the trial that had ended is not run again."""
    folder, words = tmp_path / "search", (*TINY, "algo.iterations=8", *RANDOM)
    curves = folder / "trials"
    with Training("train.py", words).begun(folder) as program:
        wait_for(lambda: len(list(curves.glob("*/learning_curve.csv"))) >= 2, program, 120)
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        status = program.wait(timeout=60)
    told = (tmp_path / "printed").read_text()
    assert status == 130, told
    assert "of 4 trials ended; resume=auto goes on" in told
    assert "interrupted" in told
    assert "Traceback" not in told
    first = {row["trial"]: row for row in csv.DictReader((folder / "tune.csv").open())}
    ended = {
        name for name, row in first.items() if (folder / "trials" / name / "metrics.json").is_file()
    }
    assert 1 <= len(ended) < 4
    done("train", *words, "resume=auto", folder="search")
    rows = {row["trial"]: row for row in csv.DictReader((folder / "tune.csv").open())}
    assert set(rows) == set(first)
    assert all(rows[name] == first[name] for name in ended)
    rates = {row["algo.learning_rate"] for row in rows.values()}
    assert len(rates) == 4
    assert all(3e-5 <= float(rate) <= 1e-3 for rate in rates)
    made = [int(row["iterations"]) for row in rows.values()]
    assert max(made) == 8
    assert all(row["best_jct_s"] and not row["error"] for row in rows.values())
