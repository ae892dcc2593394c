"""Ctrl-C ends a program whatever a library makes of it, and what is said after it."""

import ctypes
import importlib
import shlex
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from gpuyard.launch import errors as ctrl_c
from gpuyard.launch.start import going_on
from gpuyard.launch.terminal import RunCount
from gpuyard.training.train import _plan_setting
from marl.rllib.checkpoint import note_setting
from sim.errors import override
from tests.contract.compositions import resolved


@pytest.fixture
def launch(monkeypatch) -> ModuleType:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # `run_main` sets it
    return importlib.import_module("gpuyard.launch.start")


BOTH = signal.SIGINT, signal.SIGTERM


def handlers():
    return [signal.getsignal(each) for each in BOTH]


@pytest.mark.parametrize("number", BOTH)
def test_one_dropped_in_silence_is_heeded_at_the_next_progress(number: signal.Signals):
    before, told = handlers(), []
    with pytest.raises(KeyboardInterrupt), ctrl_c.heeding_ctrl_c():
        ctrl_c.heed_ctrl_c()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        with RunCount("playing", 2) as count:
            told.append(True)
            count.tell("first")
            told.append(True)
    assert len(told) == 1
    assert handlers() == before
    ctrl_c.heed_ctrl_c()  # the next program in the process begins anew


def test_the_first_raises_at_once():
    with pytest.raises(KeyboardInterrupt), ctrl_c.heeding_ctrl_c():
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_dropped_by_a_callback_from_compiled_code_is_heeded():
    pressed = []

    def press() -> None:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)

    with ctrl_c.heeding_ctrl_c():
        ctypes.CFUNCTYPE(None)(press)()
        assert pressed
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.heed_ctrl_c()


def test_a_clean_up_is_not_interrupted_by_its_own_cause():
    """Though errors come and go in it."""
    saved = []
    with pytest.raises(KeyboardInterrupt), ctrl_c.heeding_ctrl_c():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            try:
                saved.index("checkpoint")
            except ValueError:
                ctrl_c.heed_ctrl_c()
            ctrl_c.heed_ctrl_c()
            saved.append("checkpoint")
            raise
    assert saved == ["checkpoint"]


def test_in_the_background_it_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ctrl_c.heeding_ctrl_c():
            signal.raise_signal(signal.SIGINT)
            ctrl_c.heed_ctrl_c()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def broken_clean_up() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        _ = {}["no such key"]


def test_an_error_that_came_of_it_is_told_as_an_interruption(launch, capsys):
    with pytest.raises(SystemExit) as left:
        launch.run_main(broken_clean_up)
    assert left.value.code == 130
    told = capsys.readouterr().err
    assert "interrupted" in told
    assert "no such key" in told


def test_causes_that_go_round_in_a_circle_come_of_nothing():
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__context__ = second, first
    assert not ctrl_c.came_of_ctrl_c(first)
    second.__cause__ = KeyboardInterrupt()
    assert ctrl_c.came_of_ctrl_c(first)


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
    setting = _plan_setting(resolved("train_worl", "seed=3", "dqn.steps=5"))
    note_setting(tmp_path / "run", setting)
    outcome = start("train_worl")
    outcome.failed_with("another setting: seed was 3, is 0;", "fresh=true")
    assert not (outcome.folder / "config.yaml").exists()


@pytest.mark.parametrize(
    "name", ["runs/a.b", "null", "TRUE", "nan", ".5", "1_2", 'a\\"b', "a\\b", "a\\"]
)
def test_any_name_survives_hydra(name: str):
    assert OverridesParser.create().parse_override(override("key", name)).value() == name
