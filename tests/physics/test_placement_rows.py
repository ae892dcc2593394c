"""Reading Sia's measured placements."""

import gzip
from pathlib import Path

import pytest

from interference.make_a100 import MeasuredStep, read_sia
from sim.errors import PhysicsError


def write_sia(folder: Path, rows: str) -> None:
    (folder / "throughput").mkdir(exist_ok=True)
    text = "app,gpu_type,placement,local_bsz,step_time,sync_time\n" + rows
    (folder / "throughput" / "sia_placements.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_sia_rows(tmp_path):
    write_sia(tmp_path, "net,t4,12,8,0.5,0.1\ngpt_pmp,t4,8,2,0.2,0.3\nnet,t4,1,4,0.25,0.01\n")
    assert read_sia(tmp_path) == [
        MeasuredStep("sia", "net", "t4", (1, 2), 8, 0.5),
        MeasuredStep("sia", "net", "t4", (1,), 4, 0.25),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("net,t4,,8,0.5,0.1", "placement is ''"),
        ("net,t4,20,8,0.5,0.1", "placement is '20'"),
        ("net,t4,2x2,8,0.5,0.1", "placement is '2x2'"),
        ("net,t4,2,8,-1,0.1", "step_time is '-1'"),
        ("net,t4,2,8,nan,0.1", "step_time is 'nan'"),
        ("net,t4,2", "local_bsz is None"),
    ],
)
def test_bad_sia_rows_name_line_and_value(tmp_path, row, message):
    write_sia(tmp_path, f"net,t4,1,8,0.5,0.1\n{row}\n")
    with pytest.raises(PhysicsError, match=f"gz:3: {message}"):
        read_sia(tmp_path)


def test_a_missing_file_says_what_to_set(tmp_path):
    with pytest.raises(PhysicsError, match="GPUYARD_DATA"):
        read_sia(tmp_path)
