"""What the reader of Slurm's accounting makes of the rows that sacct prints, and of broken ones."""

import logging
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.jobs import CANCELLED, COMPLETED, FAILED
from sim.text_files import clock_s
from sim.traces.estimators import LimitEstimator
from sim.traces.sacct import parse_tres
from tests.traces.trace_samples import SACCT, loaded, preset, setting

INF = float("inf")
FIELDS = ("JobID", "User", "State", "Submit", "Start", "End", "Elapsed", "Timelimit", "ReqTRES")
JOB = ("1", "ann", "COMPLETED", "2025-03-01T08:00:00", "2025-03-01T08:10:00", "2025-03-01T09:10:00",
       "01:00:00", "02:00:00", "cpu=4,gres/gpu=2")  # fmt: skip


def text_of(*rows: dict[str, str], fields=FIELDS) -> bytes:
    """A file of jobs that differ from JOB in some fields."""
    jobs = [dict(zip(FIELDS, JOB, strict=True)) | row for row in rows]
    lines = [fields, *([job[name] for name in fields] for job in jobs)]
    return "\n".join(map("|".join, lines)).encode()


def refused(folder: Path, *rows: dict[str, str], fields=FIELDS) -> str:
    with pytest.raises(TraceError) as error:
        loaded("sacct", folder, text_of(*rows, fields=fields))
    return str(error.value)


def test_the_sample_row_by_row(tmp_path: Path) -> None:
    trace, notes = loaded("sacct", tmp_path, SACCT.encode())
    assert list(trace.job_id) == ["101", "107", "102_4", "104", "105+0"]
    assert trace.submit_s.tolist() == [0, 30, 60, 120, 3000]  # the last was eligible at 08:50
    assert trace.num_gpus.tolist() == [2, 1, 1, 2, 3]  # a total beside its type is no second GPU
    assert trace.duration_s.tolist() == [7200, 60, 0, 10800, 9000]
    assert trace.outcome.tolist() == [COMPLETED, FAILED, CANCELLED, FAILED, COMPLETED]
    assert trace.withdraw_s.tolist() == [INF, INF, 3600, INF, INF]
    assert trace.limit_s.tolist() == [93600, 1800, 7200, INF, INF]
    assert np.array_equal(trace.waited_s, [600, 0, np.nan, 60, 600], equal_nan=True)
    assert list(trace.gpu_types) == ["a100", "", "", "a100", ""]  # asked for, not what it got
    assert trace.cpu_milli.tolist() == [8000, 4000, 4000, 8000, 1333]
    assert trace.memory_mib.tolist() == [32768, 16000, 16000, 32768, 2**20]
    assert list(trace.user) == ["ann", "bob", "bob", "cat", "ann"]
    assert list(trace.vc) == ["a100", "a100", "a100", "a100", "v100"]
    assert list(trace.group) == ["ann/train", "bob/train", "bob/sweep", "cat/llm", ""]
    assert trace.priority.tolist() == [2, 1, 1, 1, 1]
    assert notes.left_out == dict.fromkeys((
        "are steps of jobs", "are array tasks that never began, many in one row", "use no GPU",
        "use parts of GPUs (gres/shard, gres/mps), whose size sacct lacks", "still waited",
        "are earlier runs of requeued jobs", "were given up before they could begin (Eligible)",
    ), 1)  # fmt: skip


def test_columns_may_stand_in_any_order_and_some_may_lack(tmp_path: Path, caplog) -> None:
    for seed in range(5):
        fields = list(FIELDS)
        random.Random(seed).shuffle(fields)  # noqa: S311
        trace, _ = loaded("sacct", tmp_path, text_of({}, fields=tuple(fields)))
        assert (trace.num_gpus[0], trace.duration_s[0], trace.limit_s[0]) == (2, 3600, 7200)
    least = ("JobID", "State", "Submit", "Elapsed", "ReqTRES")
    with caplog.at_level(logging.INFO):
        trace, _ = loaded("sacct", tmp_path, text_of({}, fields=least))
    assert trace.limit_s is None and trace.waited_s is None
    assert (
        "has no column Eligible, Start, End, Timelimit, TimelimitRaw, AllocTRES, User"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("JobID", "State", "Submit", "Elapsed"), "no column AllocTRES or ReqTRES, which tell the"),
        (("JobID", "State", "Submit", "ReqTRES", "End"), "Elapsed or Start and End, which tell"),
        (("JobID", "Submit", "Elapsed", "ReqTRES"), "line 1: no column 'State'"),
    ],
)
def test_a_column_that_must_be_there(fields, words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, {}, fields=fields)
    with pytest.raises(TraceError, match=r"no column 'Acount' for Partition"):
        loaded("sacct", tmp_path, text_of({}), "columns.Partition=Acount")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"JobID": "x"}, "column 'JobID': 'x' is no job of Slurm, such as 123, 123_4 or 123+0"),
        ({"Submit": "Unknown"}, "column 'Submit': '' is empty; every job has a time"),
        ({"Submit": "1740816000"}, "column 'Submit': '1740816000' is not a timestamp"),
        ({"Submit": "2025-03-01T10:00:00"}, "column 'Start': '2025-03-01T08:10:00' is before the"),
        ({"Elapsed": "-01:00:00"}, "column 'Elapsed': '-01:00:00' is no duration such as"),
        ({"Timelimit": "1-00:00:0"}, "column 'Timelimit': '1-00:00:0' is no duration such as"),
        ({"ReqTRES": "cpu=4,gres/gpu"}, "column 'ReqTRES': 'cpu=4,gres/gpu' is no list such as"),
        ({"ReqTRES": "gres/gpu=1.5"}, "column 'ReqTRES': 'gres/gpu=1.5' is no list such as"),
        ({"ReqTRES": "gres/gpu=99999999999"}, "is no plausible number of GPUs"),
        ({"User": "a|b"}, "line 3: the row is too long: 10 fields, the header has 9; write a file"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, str], words: str, tmp_path: Path) -> None:
    said = refused(tmp_path, {}, {"JobID": "2", **change})
    assert "main.txt, line 3" in said and words in said
    trace, notes = loaded("sacct", tmp_path, text_of({}, {"JobID": "2", **change}), strict=False)
    assert (list(trace.job_id), notes.skipped) == (["1"], 1)


def test_a_bad_field_of_a_row_that_is_no_gpu_job_is_none(tmp_path: Path) -> None:
    rows = {"JobID": "2.batch", "Timelimit": "?"}, {"JobID": "3", "ReqTRES": "cpu=4", "End": "?"}
    trace, notes = loaded("sacct", tmp_path, text_of({}, *rows))
    assert list(trace.job_id) == ["1"]
    assert notes.left_out == {"are steps of jobs": 1, "use no GPU": 1}


def test_times_alone_tell_the_run_time_and_an_open_end_is_that_of_the_file(tmp_path) -> None:
    fields = tuple(name for name in FIELDS if name != "Elapsed")
    rows = {}, {"JobID": "2", "State": "RUNNING", "End": "Unknown", "Start": "2025-03-01T09:00:00"}
    trace, _ = loaded("sacct", tmp_path, text_of(*rows, fields=fields))
    assert trace.duration_s.tolist() == [3600, 600]
    said = refused(tmp_path, {"End": "2025-03-01T07:00:00"}, fields=fields)
    assert "column 'End': '2025-03-01T07:00:00' is before the job's Start" in said
    said = refused(tmp_path, {"End": "Unknown"}, fields=fields)
    assert "column 'End': '' is unknown, but the job has ended" in said

    # An hour back, when clocks change, is no fault.
    trace, _ = loaded("sacct", tmp_path, text_of({"Start": "2025-03-01T07:30:00"}))
    assert trace.waited_s.tolist() == [0]


def test_runs_of_one_job_and_rows_of_one_run(tmp_path: Path) -> None:
    again = {"Submit": "2025-03-01T09:10:00", "Start": "2025-03-01T12:00:00", "Elapsed": "00:30:00"}
    first = {"State": "NODE_FAIL"}
    for rows in ((first, again), (again, first)):
        trace, notes = loaded("sacct", tmp_path, text_of(*rows))
        assert (trace.duration_s.tolist(), trace.waited_s.tolist()) == ([1800], [600])
        assert notes.left_out == {"are earlier runs of requeued jobs": 1}
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "Elapsed": "00:00:00"}
    runs = {"State": "RUNNING", "End": "Unknown", "Elapsed": "00:20:00"}
    header = dict(zip(FIELDS, FIELDS, strict=True))
    for rows in (({}, waits, runs), (runs, {}, waits)):  # files of months, one behind another
        trace, notes = loaded("sacct", tmp_path, text_of(*rows, again))
        assert (trace.duration_s.tolist(), trace.waited_s.tolist()) == ([1800], [600])
        assert notes.left_out["are other rows of the same run"] == 2
        trace, notes = loaded("sacct", tmp_path, text_of(*rows, header))
        assert notes.left_out["are header rows"] == 1
        assert (trace.duration_s.tolist(), trace.waited_s.tolist()) == ([3600], [600])
    trace, notes = loaded("sacct", tmp_path, text_of({}, {}))
    assert (len(trace), notes.left_out) == (1, {"are other rows of the same run": 1})
    said = refused(tmp_path, {}, {"User": "bob"})
    assert "earlier row again; give it a name unlike line 2's" in said


def test_a_file_without_gpu_jobs_says_what_it_holds(tmp_path: Path) -> None:
    said = refused(tmp_path, {"ReqTRES": "cpu=4"}, {"JobID": "2.0"})
    assert "none of its 2 rows is usable" in said
    assert "1 are steps of jobs" in said and "1 use no GPU" in said


def test_what_happened_is_told_and_limits_are_predictions(tmp_path: Path, caplog) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    known = setting(LimitEstimator(unlimited_s=None))
    with caplog.at_level(logging.INFO):
        table = preset("sacct", f"path={path}").whole(setting=known, seed=0)
    assert table.estimate_s.tolist() == [93600, 1800, 7200, 93600, 93600]
    assert "4 of 5 jobs began, after 315 s on average (p50 330, p95 600)" in caplog.text
    clipped = preset("sacct", f"path={path}", "max_duration_s=7000")
    assert clipped.whole(setting=known, seed=0).estimate_s.max() == 7000
    with pytest.raises(TraceError, match=r"line 2, column 'QOS': 'top' has no priority.*add \+wor"):
        loaded("sacct", tmp_path, SACCT.replace("|high|", "|top|").encode())


def test_another_delimiter_is_a_key(tmp_path: Path) -> None:
    tabs = text_of({"User": "a b"}).replace(b"|", b"\t")
    trace, _ = loaded("sacct", tmp_path, tabs, "reader.delimiter=tab")
    assert list(trace.user) == ["a b"]
    told = r"by pipes \(sacct --parsable2 writes them; .* take workload\.reader\.delimiter=tab"
    with pytest.raises(TraceError, match=told):
        loaded("sacct", tmp_path, tabs)


@pytest.mark.parametrize(
    ("text", "memory_mib"),
    [("mem=64G", 65536), ("mem=1.5T", 1572864), ("mem=512K", 0.5), ("mem=4000", 4000),
     ("mem=16000M", 16000)],
)  # fmt: skip
def test_memory_has_units(text: str, memory_mib: float) -> None:
    got = parse_tres(text)
    assert got is not None and got.memory_mib == memory_mib


@given(days=st.integers(0, 400), left_s=st.integers(0, 86399))
def test_durations_read_back(days: int, left_s: int) -> None:
    clock = f"{left_s // 3600:02}:{left_s // 60 % 60:02}:{left_s % 60:02}"
    assert clock_s(f"{days}-{clock}") == days * 86400 + left_s
    assert clock_s(clock) == left_s


@pytest.mark.parametrize(
    ("tres", "gpus", "milli", "types"),
    [
        ("", 0, 1000, ()),
        ("billing=8,cpu=8,mem=64G,node=1", 0, 1000, ()),
        ("cpu=8,gres/gpu=2,gres/gpu:a100=2", 2, 1000, ("a100",)),
        ("gres/gpu:a100=2,cpu=8,gres/gpu=2", 2, 1000, ("a100",)),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3, 1000, ("a100", "v100")),
        ("gres/gpu:a100_1g.5gb=4,fs/disk=1G,license/x=2,bb/y=1.5T,energy=0", 4, 142, ("a100",)),
        ("gres/gpumem=80G,gres/gpuutil=100,gres/tmp=1", 0, 1000, ()),
        ("gres/gpu:a100_3g.20gb=2", 2, 428, ("a100",)),
        ("gres/gpu=1,gres/gpu:nvidia_a100_1g.5gb=1", 1, 142, ("nvidia_a100",)),
        ("gres/gpu:1g.10gb+me=3", 3, 142, ()),
        ("gres/gpu:a30_2g.12gb=1", 1, 500, ("a30",)),
        ("gres/gpu:A30-1g.6gb=1", 1, 250, ("A30",)),
        ("gres/gpu:NVIDIA-A30-MIG-2g.12gb=1", 1, 500, ("NVIDIA-A30",)),
        ("gres/gpu:a100.mig.3g.20gb=1", 1, 428, ("a100",)),
        ("gres/gpu:mig-1g.10gb.me=2", 2, 142, ()),
        ("gres/gpu:a100_7g.40gb=1", 1, 1000, ("a100",)),
        ("gres/gpu:a100=4,gres/gpu=4", 4, 1000, ("a100",)),
        ("gres/gpu:a100_3g.20gb=1,gres/gpu=2", 2, None, ("a100",)),
        ("gres/gpu:a100=1,gres/gpu:a100_3g.20gb=1", 2, None, ("a100",)),
        ("gres/gpu:a100_3g.20gb=1,gres/gpu:a100_1g.5gb=1", 2, None, ("a100",)),
        ("gres/gpu:a100_3g.20gb=0,gres/gpu=2", 2, 1000, ()),
    ],
)
def test_lists_of_resources_and_slices_as_parts_of_a_gpu(tres: str, gpus, milli, types) -> None:
    got = parse_tres(tres)
    assert (got.gpus, got.milli, got.types) == (gpus, milli, types)


def test_jobs_on_slices_take_parts_and_unlike_ones_are_left_out(tmp_path: Path) -> None:
    slices, mixed = "cpu=6,gres/gpu:a100_3g.20gb=2", "gres/gpu:a100_3g.20gb=1,gres/gpu:a100=1"
    asked = enumerate((slices, mixed, "gres/gpu=1"))
    rows = ({"JobID": str(at), "ReqTRES": one} for at, one in asked)
    trace, notes = loaded("sacct", tmp_path, text_of(*rows))
    assert (trace.num_gpus.tolist(), trace.gpu_milli.tolist()) == ([2, 1], [428, 1000])
    assert list(trace.gpu_types) == ["a100", ""]
    assert notes.left_out == {"use MIG slices and GPUs of several sizes": 1}
    row = {"ReqTRES": mixed, "AllocTRES": "gres/gp"}
    told = refused(tmp_path, row, fields=(*FIELDS, "AllocTRES"))
    assert "column 'AllocTRES': 'gres/gp' is no list such as" in told
