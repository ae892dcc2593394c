"""What a training run writes for TensorBoard, read back from its event files."""

import importlib.util
import math
import struct
from collections.abc import Iterator
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event

SOURCE = Path(__file__).resolve().parents[2] / "scripts" / "training_board.py"
spec = importlib.util.spec_from_file_location("training_board", SOURCE)
assert spec is not None and spec.loader is not None
training_board = importlib.util.module_from_spec(spec)
spec.loader.exec_module(training_board)
Board, BOARD = training_board.Board, training_board.BOARD


def events(path: Path) -> Iterator[Event]:
    """Records of a TFRecord file: length, its checksum, the event, its checksum."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield Event.FromString(data[at + 12 : at + 12 + length])
        at += length + 16


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    return [
        (event.step, value.tag, value.simple_value)
        for path in sorted((folder / BOARD).iterdir())
        for event in events(path)
        for value in event.summary.value
    ]


def test_rows_become_scalars_by_iteration_and_gaps_stay_gaps(tmp_path: Path):
    board = Board(tmp_path, 0)
    board.write({"iteration": 0, "eval_jct_mean_s": 9000.0, "return_mean": None})
    board.write({"iteration": 1, "eval_jct_mean_s": math.nan, "return_mean": -2.5})
    board.close()
    assert scalars(tmp_path) == [
        (0, "eval_jct_mean_s", 9000.0),
        (1, "return_mean", -2.5),
    ]


def test_a_later_start_says_from_where_it_replaces(tmp_path: Path):
    board = Board(tmp_path, 7)
    board.write({"iteration": 7, "entropy": 1.0})
    board.close()
    (path,) = (tmp_path / BOARD).iterdir()
    starts = [e.step for e in events(path) if e.HasField("session_log")]
    assert starts == [7]
