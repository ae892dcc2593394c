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


SWEEP = ["scripts/simulate.py", "-m", "seed=1,2"]


@pytest.mark.parametrize(("program", "overrides", "argv", "told"), [
    ("train", ("seed=3", "resume=old"), None,
     "to go on: python scripts/train.py seed=3 hydra.run.dir=HERE resume=auto"),
    ("train_topdrl", (), None, "there is no checkpoint yet: start it again"),
    ("reproduce", ("experiment=league",), None,
     "to go on: python scripts/reproduce.py experiment=league hydra.run.dir=HERE"),
    # who began anew goes on without forgetting again
    ("reproduce", ("fresh=true", "seed=1"), None,
     "to go on: python scripts/reproduce.py seed=1 hydra.run.dir=HERE"),
    ("train_worl", ("fresh=true", "seed=1"), None,
     "to go on: python scripts/train_worl.py seed=1 hydra.run.dir=HERE"),
    ("simulate", (), SWEEP,
     "to go on without the points that are finished: python scripts/simulate.py -m seed=1,2"
     " hydra.sweep.dir=PARENT"),
    ("simulate", (), None, "simulate keeps nothing half-done: start it again"),
])  # fmt: skip
def test_how_a_program_goes_on_is_told(tmp_path: Path, program, overrides, argv, told: str):
    found = going_on(record(program, *overrides), tmp_path, argv or [f"{program}.py"])
    assert found == told.replace("HERE", str(tmp_path)).replace("PARENT", str(tmp_path.parent))


def test_who_goes_on_from_a_checkpoint_says_which(tmp_path: Path):
    (tmp_path / "checkpoint").mkdir()
    told = going_on(record("train_topdrl"), tmp_path, ["train_topdrl.py"])
    assert told is not None and told.endswith(f"hydra.run.dir={tmp_path} resume={tmp_path}")


def test_a_folder_of_odd_signs_survives_shell_and_hydra():
    folder = Path("/a b, (c)/seed=1/it's")
    told = going_on(record("train"), folder, ["train.py"])
    word = shlex.split(told.removeprefix("to go on: "))[2]
    assert OverridesParser.create().parse_override(word).value() == str(folder)


def test_plans_of_another_setting_are_no_beginning(start: Callable, tmp_path: Path):
    with initialize_config_dir(str(CONF), version_base=None):
        setting = _plan_setting(resolve(compose("train_worl", ["seed=3", "dqn.steps=5"])))
    note_setting(tmp_path / "run", setting)
    outcome = start("train_worl")
    outcome.failed_with("another setting: seed was 3, is 0;", "fresh=true")
    assert not (outcome.folder / "config.yaml").exists()


@pytest.mark.parametrize(
    "name", ["runs/a.b", "null", "TRUE", "nan", ".5", "1_2", 'a\\"b', "a\\b", "a\\"]
)
def test_any_name_survives_hydra(name: str):
    assert OverridesParser.create().parse_override(override("key", name)).value() == name
