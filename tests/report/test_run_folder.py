"""The run folder: complete or visibly not."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from sim import files
from sim.files import ReportError, run_names, write_atomically
from sim.report import run_folder
from sim.report.run_folder import git_state, read_jct_s, read_row, write_run

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


def test_the_job_table_has_a_row_a_job(tmp_path, run, metrics, record):
    write_run(tmp_path, run, metrics, record)
    frame = pd.read_parquet(tmp_path / "jobs.parquet")
    assert " ".join(frame.columns) == (
        "job_id submit_s num_gpus duration_s estimate_s profile home partition start_s finish_s "
        "run_s jct_s queue_delay_s preemptions forwards measured outcome"
    )
    assert frame["job_id"].tolist() == ["job-0", "job-1", "job-2"]
    assert frame["queue_delay_s"].tolist()[:2] == [0.0, 100.0]
    assert np.isnan(frame["finish_s"][2]) and np.isnan(frame["jct_s"][2])
    assert frame["preemptions"].tolist() == [0, 1, 0]


def test_nan_is_null_in_json(tmp_path, run, metrics, record):
    write_run(tmp_path, run, {**metrics, "jct_mean_s": float("nan")}, record)
    loaded = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert loaded["jct_mean_s"] is None
    assert np.isnan(read_row(tmp_path).metrics["jct_mean_s"])


def test_the_record_names_versions_and_command(tmp_path, run, metrics, record):
    write_run(tmp_path, run, metrics, record)
    loaded = json.loads((tmp_path / "record.json").read_text())
    assert loaded["versions"]["numpy"] == np.__version__
    assert loaded["versions"]["python"].startswith("3.")
    assert loaded["command"] == ["simulate", "seed=0"]
    assert loaded["physics"] == "off" and loaded["information"] == "none"
    assert {"git_commit", "git_dirty", "seed"} <= set(loaded)


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


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "none" / "file", b"x")
    assert error.value.filename == str(tmp_path / "none" / "file")


def test_others_may_read_what_was_written(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"x")
    plain = tmp_path / "plain"
    plain.write_bytes(b"x")
    assert path.stat().st_mode == plain.stat().st_mode


def test_broken_json_names_file_and_line(tmp_path, run, metrics, record):
    write_run(tmp_path, run, metrics, record)
    (tmp_path / "metrics.json").write_text('{\n"a": 1,\n')
    with pytest.raises(ReportError, match=r"metrics\.json, line 3"):
        read_row(tmp_path)


def test_only_who_ran_with_several_numbers_of_agents_is_told_apart(make):
    runs = [make.row("a", agents=1), make.row("a", agents=4), make.row("b", agents=4)]
    runs.append(make.row("b", agents=4, window=1))
    assert run_names([run.labels for run in runs]) == ["a (1 agent)", "a (4 agents)", "b", "b"]
