"""Checkpoints are whole or refused by name, the last few stay, and a killed training goes on."""

import logging
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from marl.rllib import checkpoint
from marl.training.spec import CheckpointError
from tests.marl.test_rllib import arguments
from tests.marl.trainings import TINY, Training, curve, iterations, wait_for
from tests.marl.worlds import SMALL

MAKER = checkpoint.Maker("PPO", {"hidden_dim": 8}, "2.60.0")
EVERY = 3  # iterations between checkpoints of the killed training
WORDS = ("ray.num_envs_per_env_runner=2", f"algo.checkpoint_every={EVERY}", "warm_start=none",
         "validate_every=50")  # fmt: skip
TRAINING = Training("train.py", (*TINY, *WORDS))


def fill(folder: Path, iteration: int = 1, maker: checkpoint.Maker = MAKER) -> None:
    (folder / "learner").mkdir(parents=True, exist_ok=True)
    (folder / "learner" / "state.pkl").write_bytes(pickle.dumps(list(range(100))))
    (folder / "average.pt").write_bytes(b"weights")
    checkpoint.seal(folder, maker, iteration)


def run_with(folder: Path, *iterations: int, keep: int = 9) -> Path:
    for number in iterations:
        checkpoint.add_checkpoint(folder, number, lambda part, n=number: fill(part, n), keep=keep)
    return folder


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("harm", "told"),
    [(cut, "bytes of"), (flip, "its content was changed"), (Path.unlink, "is missing")],
)
def test_a_harmed_file_is_named_with_the_fault_and_the_fix(tmp_path, harm, told):
    fill(tmp_path, 7)
    found = checkpoint.checked(tmp_path, MAKER)
    assert (found.iteration, found.maker) == (7, MAKER)
    assert set(found.files) == {"learner/state.pkl", "average.pt"}
    harm(tmp_path / "learner" / "state.pkl")
    with pytest.raises(CheckpointError, match=rf"state\.pkl: .*{told}.*resume from another"):
        checkpoint.checked(tmp_path, MAKER)


def test_a_checkpoint_of_another_making_or_without_a_manifest_is_refused(tmp_path: Path):
    for other, told in (
        (checkpoint.Maker("APPO", {"hidden_dim": 8}, "2.60.0"), "its algorithm is APPO"),
        (checkpoint.Maker("PPO", {"hidden_dim": 16}, "2.60.0"), "its policy is .*16"),
        (checkpoint.Maker("PPO", {"hidden_dim": 8}, "2.59.0"), r"its ray is 2\.59\.0"),
    ):
        fill(tmp_path, maker=other)
        with pytest.raises(CheckpointError, match=told):
            checkpoint.checked(tmp_path, MAKER)
        (tmp_path / checkpoint.MANIFEST).unlink()
    for text in ("", "[]", '{"format": 1}', '{"format": 9}', '{"form'):
        (tmp_path / checkpoint.MANIFEST).write_text(text)
        with pytest.raises(CheckpointError, match=checkpoint.MANIFEST):
            checkpoint.checked(tmp_path, MAKER)


def test_the_last_few_stay_and_an_earlier_one_resumed_ends_the_later_history(tmp_path: Path):
    assert list(checkpoint.checkpoints(run_with(tmp_path, 2, 4, 6, 8, keep=3))) == [4, 6, 8]
    assert list(checkpoint.checkpoints(run_with(tmp_path, 5))) == [4, 5]


def half(place: Path) -> None:
    place.mkdir(exist_ok=True)
    (place / "half").write_text("")
    raise OSError(28, "No space left on device")


def test_a_save_that_fails_leaves_the_others_as_they_were(tmp_path: Path):
    run_with(tmp_path, 2)
    with pytest.raises(OSError, match="No space"):
        checkpoint.add_checkpoint(tmp_path, 4, half, keep=3)
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["iteration_000002"]
    assert checkpoint.last_whole(tmp_path).name == "iteration_000002"


def test_the_last_whole_one_is_resumed_and_the_others_are_told(tmp_path, caplog):
    run_with(tmp_path, 2, 4, 6)
    cut(checkpoint.checkpoints(tmp_path)[6] / "average.pt")
    (checkpoint.checkpoints(tmp_path)[4] / checkpoint.MANIFEST).unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpoint.last_whole(tmp_path) == checkpoint.checkpoints(tmp_path)[2]
    assert "iteration_000006/average.pt" in caplog.text
    assert "iteration_000004/manifest.json" in caplog.text
    cut(checkpoint.checkpoints(tmp_path)[2] / "average.pt")
    with pytest.raises(CheckpointError, match=r"none .* is whole.*iteration_000006/average\.pt"):
        checkpoint.last_whole(tmp_path)
    with pytest.raises(CheckpointError, match=r"resume=FOLDER"):
        checkpoint.last_whole(tmp_path / "elsewhere")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A training whose driver was killed with -9 on its way, and its last finished iteration."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    with TRAINING.begun(folder, "algo.iterations=100000") as running:
        wait_for(lambda: len(iterations(folder)) >= 3 * EVERY, running, 240)
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait(timeout=30) == -signal.SIGKILL
        yield folder, iterations(folder)[-1]


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_driver_loses_less_than_one_interval(killed: tuple[Path, int]):
    folder, last = killed
    kept = checkpoint.checked(checkpoint.last_whole(folder), None).iteration
    assert last - EVERY < kept <= last + 1


@pytest.mark.ray
@pytest.mark.slow
def test_the_same_command_goes_on_after_the_kill(killed: tuple[Path, int]):
    folder, _ = killed
    kept = checkpoint.checked(checkpoint.last_whole(folder), None).iteration
    done = TRAINING.run(folder, "resume=auto", f"algo.iterations={kept + 4}")
    assert done.returncode == 0, done.stderr
    assert iterations(folder) == list(range(kept + 5))  # each iteration once, those lost done again
    steps = [int(row["agent_steps"]) for row in curve(folder)[1:]]
    assert all(later - earlier >= 64 for earlier, later in zip([0, *steps], steps, strict=False))
    assert max(checkpoint.checkpoints(folder)) == kept + 4
    assert not list((folder / "checkpoint").glob("*.part"))
    assert (folder / "metrics.json").is_file()


@pytest.mark.ray
def test_a_trainer_refuses_what_another_made(trainer_of: Callable[..., Any], tmp_path: Path):
    trainer_of(**arguments()).save(tmp_path)
    larger = replace(SMALL, hidden_dim=SMALL.hidden_dim + 4)
    other = trainer_of(**arguments(policy=larger))
    before = {key: value.clone() for key, value in other.policy().state_dict().items()}
    with pytest.raises(CheckpointError, match="its policy is"):
        other.restore(tmp_path)
    after = other.policy().state_dict()
    assert all(torch.equal(before[key], value) for key, value in after.items())


def test_the_only_checkpoint_stays_until_the_next_is_whole(tmp_path: Path):
    def whole(place: Path) -> None:
        place.mkdir()
        (place / "whole").touch()

    checkpoint.replace_checkpoint(tmp_path, whole)
    with pytest.raises(OSError, match="No space"):
        checkpoint.replace_checkpoint(tmp_path, half)
    assert (tmp_path / "checkpoint" / "whole").is_file()
    checkpoint.replace_checkpoint(tmp_path, whole)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")  # killed between two renames
    assert (checkpoint.only_checkpoint(tmp_path) / "whole").is_file()


def test_auto_goes_on_only_with_the_same_setting(tmp_path: Path):
    setting = {"agents": {"count": 2, "skew": 0.5}, "seed": 0}
    checkpoint.check_setting(tmp_path, {"agents": {"count": 4}})  # an older run has noted none
    checkpoint.note_setting(tmp_path, setting)
    checkpoint.check_setting(tmp_path, setting)
    with pytest.raises(CheckpointError, match=r"another setting: agents.count was 2, is 4; give"):
        checkpoint.check_setting(tmp_path, setting | {"agents": {"count": 4, "skew": 0.5}})
    with pytest.raises(CheckpointError, match=r"reward was None, is 'mine'; "):
        checkpoint.check_setting(tmp_path, setting | {"reward": "mine"})


def test_power_that_a_table_did_not_tell_makes_no_other_setting(tmp_path: Path):
    checkpoint.note_setting(tmp_path, {"gpus": {"k80": {"speed": 0.3}}})
    checkpoint.check_setting(
        tmp_path, {"gpus": {"k80": {"speed": 0.3, "idle_watts": 28, "busy_watts": 150}}}
    )
    with pytest.raises(CheckpointError, match=r"gpus.k80.speed was 0.3, is 0.4"):
        checkpoint.check_setting(tmp_path, {"gpus": {"k80": {"speed": 0.4, "idle_watts": 28}}})
