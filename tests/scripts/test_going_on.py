"""What is said after Ctrl-C."""

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser

from gpuyard.launch.build import resolve
from gpuyard.launch.errors import CONF
from gpuyard.launch.start import going_on
from gpuyard.training.train import _plan_setting
from marl.rllib.checkpoint import note_setting
from sim.errors import override


def record(program: str, *overrides: str) -> SimpleNamespace:
    return SimpleNamespace(program=program, overrides=overrides)


def test_a_training_goes_on_in_its_folder(tmp_path: Path):
    told = going_on(record("train", "seed=3", "resume=old"), tmp_path, ["train.py"])
    assert told == (
        f"to go on: python scripts/train.py seed=3 hydra.run.dir={tmp_path} resume=auto"
    )


def test_a_folder_of_odd_signs_survives_shell_and_hydra():
    folder = Path("/a b, (c)/seed=1/it's")
    told = going_on(record("train"), folder, ["train.py"])
    word = shlex.split(told.removeprefix("to go on: "))[2]
    assert OverridesParser.create().parse_override(word).value() == str(folder)


def test_a_program_that_needs_a_checkpoint_says_when_there_is_none(tmp_path: Path):
    words = record("train_topdrl"), tmp_path, ["train_topdrl.py"]
    assert going_on(*words) == "there is no checkpoint yet: start it again"
    (tmp_path / "checkpoint").mkdir()
    assert going_on(*words).endswith(f"hydra.run.dir={tmp_path} resume={tmp_path}")


def test_a_reproduction_goes_on_with_the_same_command(tmp_path: Path):
    told = going_on(record("reproduce", "experiment=league"), tmp_path, ["reproduce.py"])
    assert told is not None and "experiment=league" in told and "resume" not in told


@pytest.mark.parametrize("program", ["reproduce", "train_worl"])
def test_who_began_anew_goes_on_without_forgetting_again(tmp_path: Path, program: str):
    told = going_on(record(program, "fresh=true", "seed=1"), tmp_path, [f"{program}.py"])
    assert told is not None and "seed=1" in told and "fresh" not in told


def test_plans_of_another_setting_are_no_beginning(start: Callable, tmp_path: Path):
    with initialize_config_dir(str(CONF), version_base=None):
        setting = _plan_setting(resolve(compose("train_worl", ["seed=3", "dqn.steps=5"])))
    note_setting(tmp_path / "run", setting)
    outcome = start("train_worl")
    outcome.failed_with("another setting: seed was 3, is 0;", "fresh=true")
    assert not (outcome.folder / "config.yaml").exists()


def test_a_sweep_skips_what_is_finished(tmp_path: Path):
    argv = ["scripts/simulate.py", "-m", "seed=1,2"]
    told = going_on(record("simulate"), tmp_path / "0_fifo_csv", argv)
    assert told is not None and told.endswith(f"hydra.sweep.dir={tmp_path}")


def test_what_cannot_go_on_says_so(tmp_path: Path):
    told = going_on(record("simulate"), tmp_path, ["simulate.py"])
    assert told == "simulate keeps nothing half-done: start it again"


@pytest.mark.parametrize(
    "name", ["runs/a.b", "null", "TRUE", "nan", ".5", "1_2", 'a\\"b', "a\\b", "a\\"]
)
def test_any_name_survives_hydra(name: str):
    assert OverridesParser.create().parse_override(override("key", name)).value() == name
