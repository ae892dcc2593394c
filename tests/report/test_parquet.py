"""Parquet files without pandas, and what the event log looks like in them."""

import numpy as np
import pandas as pd
import pytest

from sim.files import ReportError
from sim.placers.by_room import FirstFit
from sim.report.run_tables import (
    decision_columns,
    event_columns,
    job_columns,
    parquet_bytes,
    read_parquet,
    read_recorded,
    server_columns,
)
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.report.recorded import recorded_of
from tests.sim.worlds import Job, cluster, physics_of, play, world

COLUMNS = {
    "whole": np.array([3, -1, 2]),
    "real": np.array([0.5, np.nan, -2.0]),
    "flag": np.array([True, False, True]),
    "text": np.array(["a", None, "é"], dtype=object),
    "lists": [np.array([1, 2]), np.empty(0, dtype=np.int64), np.array([7])],
}


def test_columns_read_back_the_same_by_us_and_by_pandas(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet_bytes(COLUMNS))
    ours = read_parquet(path, tuple(COLUMNS), fix="")
    theirs = pd.read_parquet(path)
    assert ours["whole"].tolist() == theirs["whole"].tolist() == [3, -1, 2]
    assert ours["real"] == pytest.approx(theirs["real"].to_numpy(), nan_ok=True)
    assert ours["flag"].tolist() == theirs["flag"].tolist() == [True, False, True]
    assert ours["text"].tolist() == ["a", None, "é"]
    assert theirs["text"].isna().tolist() == [False, True, False]
    assert [each.tolist() for each in ours["lists"]] == [[1, 2], [], [7]]
    assert [list(each) for each in theirs["lists"]] == [[1, 2], [], [7]]


def test_empty_columns_can_be_written(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet_bytes({name: values[:0] for name, values in COLUMNS.items()}))
    assert len(pd.read_parquet(path)) == 0


@pytest.mark.parametrize("kept", [0, 4, 100, -20])
def test_a_file_that_is_cut_off_says_so(tmp_path, kept):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet_bytes(COLUMNS)[:kept])
    with pytest.raises(ReportError, match=r"t\.parquet is cut off.*do it again"):
        read_parquet(path, ("whole",), fix="do it again")


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(ReportError, match=r"no\.parquet is not there; do it again"):
        read_parquet(tmp_path / "no.parquet", ("a",), fix="do it again")
    (tmp_path / "t.parquet").write_bytes(parquet_bytes(COLUMNS))
    with pytest.raises(ReportError, match="column job is missing"):
        read_parquet(tmp_path / "t.parquet", ("whole", "job"), fix="")


def write_log(folder, run):
    for name, columns in (
        ("events", event_columns(run)), ("servers", server_columns(run)), ("jobs", job_columns(run))
    ):  # fmt: skip
        (folder / f"{name}.parquet").write_bytes(parquet_bytes(columns))


def test_an_event_log_reads_back_the_same(tmp_path, eventful):
    run = eventful(3)
    write_log(tmp_path, run)
    back, here = read_recorded(tmp_path), recorded_of(run)
    for name in ("time_s", "kind", "job", "partition"):
        assert getattr(back.log, name).tolist() == getattr(run.log, name).tolist()
    assert [g.tolist() for g in back.log.gpus] == [g.tolist() for g in run.log.gpus]
    for name in ("job_id", "least_gpus", "most_gpus", "server_rack", "server_first_gpu"):
        assert getattr(back, name).tolist() == getattr(here, name).tolist()
    frame = pd.read_parquet(tmp_path / "events.parquet")
    assert " ".join(frame.columns) == "event time_s kind job job_id partition gpus"
    assert frame["job_id"].isna().tolist() == (run.log.job < 0).tolist()


def test_a_log_of_other_jobs_is_refused(tmp_path, eventful):
    write_log(tmp_path, eventful(3))
    few = {name: values[:5] for name, values in job_columns(eventful(3)).items()}
    (tmp_path / "jobs.parquet").write_bytes(parquet_bytes(few))
    with pytest.raises(ReportError, match="different runs; run it again with log_decisions=true"):
        read_recorded(tmp_path)


def test_the_types_that_a_job_ran_on_are_a_column_of_a_mixed_cluster_only():
    jobs = [Job(0, 1, 9), Job(0, 3, 4), Job(0, 1, 5)]
    fifo = Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=True)
    mixed = cluster(2, 2, types=("x", "y"))
    physics = physics_of(mixed, compute_s=(1.0, 0.5))
    state = world(jobs, mixed, physics=physics)
    assert job_columns(play(state, fifo))["ran_on"].tolist() == ["x", "x+y", "x"]
    assert "ran_on" not in job_columns(play(world(jobs, cluster(2, 2)), fifo))


def test_decisions_are_orders_only(run):
    orders = decision_columns(run)
    assert orders["order"].tolist() == ["start", "start", "preempt", "start"]
    assert [gpus.tolist() for gpus in orders["gpus"]] == [[0, 1], [0], [0], [1]]
    assert orders["job_id"].tolist() == ["job-0", "job-1", "job-1", "job-1"]
