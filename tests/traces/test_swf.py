"""The Standard Workload Format: unknown numbers, comments, partial runs and processors."""

from pathlib import Path

import numpy as np
import pytest

from sim.errors import TraceError
from sim.jobs import CANCELLED, COMPLETED, FAILED
from tests.traces.trace_samples import SWF, loaded

INF = float("inf")


def test_the_sample_line_by_line(tmp_path: Path) -> None:
    trace, notes = loaded("swf", tmp_path, SWF.encode())
    assert list(trace.job_id) == ["1", "2", "3", "6", "7"]
    assert trace.num_gpus.tolist() == [4, 9, 8, 2, 4]  # asked for, where the log lacks what it got
    assert trace.duration_s.tolist() == [100, 50, 0, 0, 20]
    assert trace.outcome.tolist() == [COMPLETED, FAILED, CANCELLED, COMPLETED, COMPLETED]
    assert trace.withdraw_s.tolist() == [INF, INF, 30, INF, INF]
    assert trace.limit_s.tolist() == [3600, INF, 60, 60, 60]
    assert np.array_equal(trace.waited_s, [10, np.nan, np.nan, 0, 1], equal_nan=True)
    assert list(trace.user) == ["1", "2", "1", "", "3"]
    assert list(trace.vc) == ["1", "2", "1", "1", "1"]
    assert notes.left_out == {
        "are parts of checkpointed jobs, whose summary counts": 2,
        "have no run time": 1,
        "have no processors": 1,
    }


def test_several_processors_are_one_gpu(tmp_path: Path) -> None:
    trace, _ = loaded("swf", tmp_path, SWF.encode(), "reader.processors_per_gpu=4")
    assert trace.num_gpus.tolist() == [1, 3, 2, 1, 1]
    assert trace.memory_mib.tolist() == [8, 0, 0, 0, 0]  # 2,048 KiB a processor


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1 0 10 100", "1 0 10 -7", "line 3, column 'run_time': '-7' is negative"),
        ("3600 2048 1", "3600 2048 9", "line 3, column 'status': '9' is unknown; known are 0, 1"),
        ("1 0 10 100 4", "1 0 10 100 4.5", "column 'processors': '4.5' is no whole number"),
    ],
)
def test_a_bad_number_is_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in SWF
    with pytest.raises(TraceError) as error:
        loaded("swf", tmp_path, SWF.replace(old, new, 1).encode())
    assert words in str(error.value)
