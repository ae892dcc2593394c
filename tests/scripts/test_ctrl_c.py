"""Ctrl-C ends a program though a library drops the exception, or makes another of it."""

import ctypes
import importlib
import signal
from contextlib import suppress
from types import ModuleType

import pytest

from gpuyard.launch import errors as ctrl_c
from gpuyard.launch.terminal import RunCount


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
