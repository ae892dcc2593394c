"""`replay.py`: listing, choosing, keys, errors; and what `simulate.py` writes for it."""

import gzip
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.files import ReportError
from sim.report.replay import Replay
from sim.report.run_tables import read_recorded
from tests.scripts.conftest import SMALL, TRACE, call

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The folder of a run of four jobs on 16 GPUs, made once."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "jobs.csv").write_text(TRACE)
    outcome = call(
        "simulate", *SMALL, f"workload.path={folder / 'jobs.csv'}", "log_decisions=true",
        "perfetto=true", "figures=[gantt,heatmap,utilisation]", folder=folder / "run",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    return outcome.folder


@pytest.fixture
def logged(simulated, tmp_path):
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(simulated, tmp_path / "logged"))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def told_of(out: str) -> list[list[str]]:
    """The words of each event that is shown."""
    return [line.split() for line in out.splitlines() if line.startswith("#")]


def test_everything_that_was_asked_for_is_there(logged):
    assert files(logged) == {
        "config.yaml", "decisions.parquet", "events.parquet", "gantt.png", "heatmap.png",
        "jobs.parquet", "metrics.json", "record.json", "report.html", "servers.parquet",
        "simulate.log", "timeline.parquet", "trace.json.gz", "utilisation_queue.png",
    }  # fmt: skip
    events = pd.read_parquet(logged / "events.parquet")
    assert events["kind"].value_counts().to_dict() == {"arrival": 4, "start": 4, "finish": 4}
    servers = pd.read_parquet(logged / "servers.parquet")
    assert servers[["rack", "first_gpu", "gpus"]].values.tolist() == [[0, 0, 8], [1, 8, 8]]
    with gzip.open(logged / "trace.json.gz") as file:
        assert sum(e["ph"] == "X" for e in json.load(file)["traceEvents"]) == 4 + 4 + 8 + 1


def test_the_whole_log(done, logged):
    outcome = done("replay", f"path={logged}")
    lines = [line for line in outcome.out.splitlines() if line.startswith("#")]
    assert len(lines) == 12
    assert lines[0].split()[1:4] == ["00:00:00.0", "arrival", "job"]
    assert "queue 0" in lines[1] and "free 12/16" in lines[1] and "GPUs 0-3" in lines[1]
    assert "rack 0     50%  1111····" in outcome.out
    assert outcome.out.endswith("12 events of 4 jobs: consistent, every GPU was given back\n")
    assert not list(outcome.folder.rglob("*"))  # looking leaves nothing behind


def test_some_of_it(done, logged):
    words = ("replay", f"path={logged}", "heatmap=false")
    assert [event[2] for event in told_of(done(*words, "job=b").out)] == [
        "arrival", "start", "finish",
    ]  # fmt: skip
    some = told_of(done(*words, "from_s=2", "to_s=12", "every=2").out)
    assert [event[0] for event in some] == ["#4", "#6", "#8"]


@pytest.mark.parametrize("unbuffered", ["", "1"])  # noticed at the end, or by the first print
@pytest.mark.parametrize(
    "command",
    ["-m gpuyard --help", "-m gpuyard replay --help", "-m gpuyard replay path=LOG",
     "benchmarks/census.py"],
)  # fmt: skip
def test_who_has_read_enough_hears_nothing_more(logged, command, unbuffered):
    """As with `| head -1`; here nobody reads from the first."""
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, *command.replace("LOG", str(logged)).split()],
        cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    os.close(writes)
    assert (done.returncode, done.stderr) in {(1, b""), (-signal.SIGPIPE, b"")}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("job=z",), ("job is 'z'", "like a, b, c")),
        (("every=0",), ("every is 0", "whole number from 1")),
        (("from_s=soon",), ("from_s is 'soon'", "number of seconds")),
        (("interactive=maybe",), ("interactive is 'maybe'",)),
        (("from_s=nan",), ("from_s is nan", "number of seconds")),
        (("from_s=9", "to_s=3"), ("to_s is 3, before from_s, 9",)),
        (("path=nowhere",), ("nowhere", "no such folder")),
        (("jobb=z",), ("jobb",)),
    ],
)
def test_wrong_questions(start, logged, words, told):
    start("replay", f"path={logged}", *words).failed_with(*told)


@pytest.mark.parametrize("name", ["events.parquet", "servers.parquet", "jobs.parquet"])
def test_missing_and_broken_files_come_with_the_fix(logged, name):
    path = logged / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReportError, match=f"{name} is cut off .*log_decisions=true"):
        read_recorded(logged)
    path.unlink()
    with pytest.raises(ReportError, match=f"{name} is not there; .*log_decisions=true"):
        read_recorded(logged)


def test_an_inconsistent_log_is_told_with_its_event(start, logged):
    events = pd.read_parquet(logged / "events.parquet")
    number = int(events.index[events["kind"] == "finish"][0])
    events["kind"] = events["kind"].replace("finish", "forward")
    events.to_parquet(logged / "events.parquet", index=False)
    outcome = start("replay", f"path={logged}", "heatmap=false")
    outcome.failed_with(f"event {number}", "forward of job c", "running, not waiting")
    assert f"#{number - 1} " in outcome.out  # what was right is shown


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [("time_s", 1, np.nan), ("time_s", 0, -5.0), ("time_s", -1, 1e9), ("job_id", 0, "z"),
     ("partition", 0, 5)],
)  # fmt: skip
def test_events_that_are_not_of_the_jobs_beside_them_are_named(
    logged, column: str, row: int, value: object
):
    events = pd.read_parquet(logged / "events.parquet")
    row = row % len(events)
    events.loc[row, column] = value
    events.to_parquet(logged / "events.parquet", index=False)
    with pytest.raises(ReportError, match=rf"event {row} \(t=.* is not of .*jobs\.parquet"):
        read_recorded(logged)


@pytest.mark.parametrize(
    ("jobs", "lost", "first"),
    [("abcd", ("arrival", "start", "finish"), "arrival"), ("a", ("start", "finish"), "start")],
)
def test_jobs_without_their_events_are_named(logged, jobs: str, lost: tuple[str, ...], first: str):
    events = pd.read_parquet(logged / "events.parquet")
    gone = events["job_id"].isin(list(jobs)) & events["kind"].isin(lost)
    events[~gone].to_parquet(logged / "events.parquet", index=False)
    replay = Replay(read_recorded(logged), max_tenants=2)
    with pytest.raises(ReportError, match=f"job a has no {first} in the log, but one in"):
        replay.finish()


def press(keys: str, *words: str) -> str:
    """What the program shows on a terminal on which `keys` are pressed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "replay.py"), *words, "interactive=true"],
        cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, keys.encode())
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    os.close(ours)
    assert process.returncode == 0, err
    return out


def test_keys_walk_forth_and_back(logged):
    out = press("nnpxq", f"path={logged}", "heatmap=false")
    assert [event[0] for event in told_of(out)] == ["#0", "#1", "#2", "#1"]
    assert "2/12: n next, p previous, q quit" in out
    assert "consistent" in out  # the rest is checked all the same


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("figures=[gant]", ("figures has 'gant'", "gantt")),
        ("figure_at_s=noon", ("noon",)),
        ("figure_at_s=5", ("figure_at_s is 5, but no heat map is drawn", "figures=[heatmap]")),
        ("perfetto=1", ("perfetto is 1",)),
    ],
)
def test_wishes_of_simulate_are_checked_before_it_runs(start, trace, wish: str, told):
    start("simulate", *SMALL, f"workload.path={trace}", wish).failed_with(*told)


def test_files_of_an_earlier_run_are_removed(done, trace, logged):
    done("simulate", *SMALL, f"workload.path={trace}", folder="logged")
    earlier = {"events.parquet", "trace.json.gz", "gantt.png", "decisions.parquet"}
    assert not files(logged) & earlier
