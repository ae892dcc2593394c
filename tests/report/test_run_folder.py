"""The run folder: complete or visibly not; parquet files, and the event log in them."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from sim import files
from sim.files import ReportError, run_names, write_atomically
from sim.report import run_folder, run_tables
from sim.report.run_folder import git_state, read_jct_s, read_row, write_run
from tests.report.run_builder import recorded_of
from tests.sim.worlds import Job, cluster, fifo, physics_of, play, world

FILES = {"metrics.json", "record.json", "config.yaml", "jobs.parquet", "timeline.parquet"}


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_written_run_reads_back_the_same(tmp_path, run, metrics, record):
    folder = tmp_path / "deep" / "run"
    write_run(folder, run, metrics, record)
    assert {path.name for path in folder.iterdir()} == FILES
    row = read_row(folder)
    assert row.labels == record.labels
    assert list(row.metrics) == list(metrics)
    assert row.metrics == pytest.approx(metrics, nan_ok=True)
    assert (folder / "config.yaml").read_text() == "seed: 0\n"
    assert read_jct_s(folder).tolist() == [150.0]  # the measured job that finished
    queue = pd.read_parquet(folder / "timeline.parquet")["queue_jobs"]
    assert queue.mean() == pytest.approx(metrics["queue_len_mean"])
    frame = pd.read_parquet(folder / "jobs.parquet")
    assert " ".join(frame.columns) == (
        "job_id submit_s num_gpus duration_s estimate_s profile home partition start_s finish_s "
        "run_s jct_s queue_delay_s preemptions forwards measured outcome"
    )
    assert frame["job_id"].tolist() == ["job-0", "job-1", "job-2"]
    assert frame["queue_delay_s"].tolist()[:2] == [0.0, 100.0]
    assert np.isnan(frame["finish_s"][2]) and np.isnan(frame["jct_s"][2])
    assert frame["preemptions"].tolist() == [0, 1, 0]
    told = json.loads((folder / "record.json").read_text())
    assert told["versions"]["numpy"] == np.__version__
    assert told["versions"]["python"].startswith("3.")
    assert told["command"] == ["simulate", "seed=0"]
    assert told["physics"] == "off" and told["information"] == "none"
    assert {"git_commit", "git_dirty", "seed"} <= set(told)


def test_nan_is_null_in_json_and_broken_json_names_file_and_line(tmp_path, run, metrics, record):
    write_run(tmp_path, run, {**metrics, "jct_mean_s": float("nan")}, record)
    path = tmp_path / "metrics.json"
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["jct_mean_s"] is None
    assert np.isnan(read_row(tmp_path).metrics["jct_mean_s"])
    path.write_text('{\n"a": 1,\n')
    with pytest.raises(ReportError, match=r"metrics\.json, line 3"):
        read_row(tmp_path)


def test_a_file_outside_git_has_no_commit(tmp_path):
    (tmp_path / "code.py").write_text("")
    assert git_state(tmp_path / "code.py") == (None, None)


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, broken):
    path = tmp_path / "metrics.json"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, broken, full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.json"]


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_cut_off_run_has_no_metrics_not_even_old_ones(
    tmp_path, run, metrics, record, monkeypatch, file
):
    write_run(tmp_path, run, metrics, record)

    def fails_at(path, content):
        if path.name == file:
            full_disk()
        files.write_atomically(path, content)

    monkeypatch.setattr(run_folder, "write_atomically", fails_at)
    with pytest.raises(OSError, match="No space left"):
        write_run(tmp_path, run, metrics, record)
    assert not (tmp_path / "metrics.json").exists()
    with pytest.raises(ReportError, match="not finished"):
        read_row(tmp_path)


def test_a_file_has_the_name_that_was_given_and_may_be_read_by_others(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "none" / "file", b"x")
    assert error.value.filename == str(tmp_path / "none" / "file")
    write_atomically(tmp_path / "file", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_only_who_ran_with_several_numbers_of_agents_is_told_apart(make):
    runs = [make.row("a", agents=1), make.row("a", agents=4), make.row("b", agents=4)]
    runs.append(make.row("b", agents=4, window=1))
    assert run_names([run.labels for run in runs]) == ["a (1 agent)", "a (4 agents)", "b", "b"]


COLUMNS = {
    "whole": np.array([3, -1, 2]),
    "real": np.array([0.5, np.nan, -2.0]),
    "flag": np.array([True, False, True]),
    "text": np.array(["a", None, "é"], dtype=object),
    "lists": [np.array([1, 2]), np.empty(0, dtype=np.int64), np.array([7])],
}


def test_columns_read_back_the_same_by_us_and_by_pandas(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(run_tables.parquet_bytes(COLUMNS))
    ours = run_tables.read_parquet(path, tuple(COLUMNS), fix="")
    theirs = pd.read_parquet(path)
    assert ours["whole"].tolist() == theirs["whole"].tolist() == [3, -1, 2]
    assert ours["real"] == pytest.approx(theirs["real"].to_numpy(), nan_ok=True)
    assert ours["flag"].tolist() == theirs["flag"].tolist() == [True, False, True]
    assert ours["text"].tolist() == ["a", None, "é"]
    assert theirs["text"].isna().tolist() == [False, True, False]
    assert [each.tolist() for each in ours["lists"]] == [[1, 2], [], [7]]
    assert [list(each) for each in theirs["lists"]] == [[1, 2], [], [7]]
    path.write_bytes(
        run_tables.parquet_bytes({name: values[:0] for name, values in COLUMNS.items()})
    )
    assert len(pd.read_parquet(path)) == 0


@pytest.mark.parametrize("kept", [0, 4, 100, -20])
def test_a_file_that_is_cut_off_says_so(tmp_path, kept):
    path = tmp_path / "t.parquet"
    path.write_bytes(run_tables.parquet_bytes(COLUMNS)[:kept])
    with pytest.raises(ReportError, match=r"t\.parquet is cut off.*do it again"):
        run_tables.read_parquet(path, ("whole",), fix="do it again")


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(ReportError, match=r"no\.parquet is not there; do it again"):
        run_tables.read_parquet(tmp_path / "no.parquet", ("a",), fix="do it again")
    (tmp_path / "t.parquet").write_bytes(run_tables.parquet_bytes(COLUMNS))
    with pytest.raises(ReportError, match="column job is missing"):
        run_tables.read_parquet(tmp_path / "t.parquet", ("whole", "job"), fix="")


def test_an_event_log_reads_back_the_same_and_one_of_other_jobs_is_refused(tmp_path, eventful):
    run = eventful(3)
    for name, columns_of in (
        ("events", run_tables.event_columns), ("servers", run_tables.server_columns),
        ("jobs", run_tables.job_columns),
    ):  # fmt: skip
        told = run_tables.parquet_bytes(columns_of(run))
        (tmp_path / f"{name}.parquet").write_bytes(told)
    back, here = run_tables.read_recorded(tmp_path), recorded_of(run)
    for name in ("time_s", "kind", "job", "partition"):
        assert getattr(back.log, name).tolist() == getattr(run.log, name).tolist()
    assert [g.tolist() for g in back.log.gpus] == [g.tolist() for g in run.log.gpus]
    for name in ("job_id", "least_gpus", "most_gpus", "server_rack", "server_first_gpu"):
        assert getattr(back, name).tolist() == getattr(here, name).tolist()
    frame = pd.read_parquet(tmp_path / "events.parquet")
    assert " ".join(frame.columns) == "event time_s kind job job_id partition gpus"
    assert frame["job_id"].isna().tolist() == (run.log.job < 0).tolist()
    few = {name: values[:5] for name, values in run_tables.job_columns(run).items()}
    (tmp_path / "jobs.parquet").write_bytes(run_tables.parquet_bytes(few))
    with pytest.raises(ReportError, match="different runs; run it again with log_decisions=true"):
        run_tables.read_recorded(tmp_path)


def test_the_types_that_a_job_ran_on_are_a_column_of_a_mixed_cluster_only():
    jobs = [Job(0, 1, 9), Job(0, 3, 4), Job(0, 1, 5)]
    mixed = cluster(2, 2, types=("x", "y"))
    physics = physics_of(mixed, compute_s=(1.0, 0.5))
    state = world(jobs, mixed, physics=physics)
    assert run_tables.job_columns(play(state, fifo()))["ran_on"].tolist() == ["x", "x+y", "x"]
    assert "ran_on" not in run_tables.job_columns(play(world(jobs, cluster(2, 2)), fifo()))


def test_decisions_are_orders_only(run):
    orders = run_tables.decision_columns(run)
    assert orders["order"].tolist() == ["start", "start", "preempt", "start"]
    assert [gpus.tolist() for gpus in orders["gpus"]] == [[0, 1], [0], [0], [1]]
    assert orders["job_id"].tolist() == ["job-0", "job-1", "job-1", "job-1"]
