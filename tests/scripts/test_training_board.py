"""What a training run writes for TensorBoard, read back from its event files."""

import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import initialize_config_dir
from tensorboardX.proto.event_pb2 import Event

from gpuyard.launch.errors import CONF
from gpuyard.training import board as training_board

BOARD = "tensorboard"


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
    board = training_board.logger_of("tensorboard", tmp_path, 0, {})
    board.write({"iteration": 0, "eval_jct_mean_s": 9000.0, "return_mean": None})
    board.write({"iteration": 1, "eval_jct_mean_s": math.nan, "return_mean": -2.5})
    board.close()
    assert scalars(tmp_path) == [(0, "eval_jct_mean_s", 9000.0), (1, "return_mean", -2.5)]


def test_a_later_start_says_from_where_it_replaces(tmp_path: Path):
    board = training_board.logger_of("tensorboard", tmp_path, 7, {})
    board.write({"iteration": 7, "entropy": 1.0})
    board.close()
    (path,) = (tmp_path / BOARD).iterdir()
    starts = [e.step for e in events(path) if e.HasField("session_log")]
    assert starts == [7]


def test_without_a_logger_nothing_is_written(tmp_path: Path):
    logger = training_board.logger_of("csv", tmp_path, 0, {})
    logger.write({"iteration": 1, "entropy": 1.0})
    logger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_logger_that_cannot_be_is_told_at_the_start(monkeypatch):
    training_board.check_logger("tensorboard")
    with pytest.raises(training_board.ConfigError, match="did you mean tensorboard"):
        training_board.check_logger("tensorbord")
    with pytest.raises(training_board.ConfigError, match=r"logger is \['csv'\]; did you mean csv"):
        training_board.check_logger(["csv"])
    monkeypatch.setitem(training_board.PACKAGES, "wandb", "no_such_package_here")
    with pytest.raises(training_board.ConfigError, match="pip install no_such_package_here"):
        training_board.check_logger("wandb")


@pytest.mark.parametrize(
    ("rivals", "told"),
    [
        ("", r"rivals is ''; it must be a list of lists of words"),
        ("scheduler=sjf", r"rivals is 'scheduler=sjf'; it must be a list of lists of words"),
        ([3], r"rivals\[0\]\.overrides is 3; it must be a list like \[scheduler=sjf\]"),
    ],
)
def test_rivals_that_are_no_lists_are_told_by_their_key(rivals, told):
    with (
        initialize_config_dir(str(CONF), version_base=None),
        pytest.raises(training_board.ConfigError, match=told),
    ):
        training_board.rivals_of({"rivals": rivals})


def test_a_rival_with_a_window_in_which_no_job_ended_is_left_out(monkeypatch, caplog):
    mean_s = {"none": [60.0, math.nan], "slow": [80.0, 80.0], "fast": [70.0, 70.0]}

    def run(task):
        metrics = {"jct_mean_s": mean_s[task.contender][task.window]}
        labels = SimpleNamespace(scheduler=task.contender)
        return SimpleNamespace(row=SimpleNamespace(labels=labels, metrics=metrics))

    monkeypatch.setattr(training_board, "run_task", run)
    monkeypatch.setattr(training_board, "setting_text", lambda *_: "")
    config = {"validation_windows": 2}
    assert training_board.best_rival(config, list(mean_s)) == {"fast": pytest.approx(70.0)}
    assert (
        training_board.best_rival(config, ["none"]) == training_board.best_rival(config, []) == {}
    )
    assert caplog.messages[0] == "rival none left out: no job of validation window 1 ended"


def test_a_service_that_refuses_is_one_line(tmp_path: Path, monkeypatch):
    """Here for want of the package; its own errors, as for a login, take the same way."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        training_board.ConfigError, match=r"logger=wandb cannot begin \(.*\); set .*WANDB_MODE=of"
    ):
        training_board.logger_of("wandb", tmp_path, 0, {})
