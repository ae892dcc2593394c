"""Ctrl-C ends a program though a library drops the exception, or makes another of it."""

import ctypes
import importlib
import signal
import sys
import time
from contextlib import suppress
from types import ModuleType

import pytest

AGAIN_S = 0.05


@pytest.fixture
def ctrl_c() -> ModuleType:
    return importlib.import_module("gpuyard.launch.start")


@pytest.fixture
def launch(monkeypatch) -> ModuleType:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # `run_main` sets it
    return importlib.import_module("gpuyard.launch.start")


def handlers():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)


def test_one_dropped_in_silence_comes_again(ctrl_c):
    before = handlers()
    with pytest.raises(KeyboardInterrupt), ctrl_c.insisting_on_ctrl_c(AGAIN_S):
        for _ in range(3):
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        time.sleep(60)
    assert handlers() == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_dropped_by_a_callback_from_compiled_code_comes_again(ctrl_c):
    pressed = []

    def press() -> None:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), ctrl_c.insisting_on_ctrl_c(AGAIN_S):
        ctypes.CFUNCTYPE(None)(press)()
        assert pressed
        time.sleep(60)


def test_a_clean_up_takes_the_time_it_takes(ctrl_c):
    """Though errors come and go in it."""
    saved = []
    with pytest.raises(KeyboardInterrupt), ctrl_c.insisting_on_ctrl_c(AGAIN_S):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            try:
                saved.index("checkpoint")
            except ValueError:
                time.sleep(4 * AGAIN_S)
            time.sleep(4 * AGAIN_S)
            saved.append("checkpoint")
            raise
    assert saved == ["checkpoint"]


def test_without_it_nothing_is_raised(ctrl_c):
    before = handlers()
    with ctrl_c.insisting_on_ctrl_c(AGAIN_S):
        time.sleep(3 * AGAIN_S)
    assert handlers() == before


def test_in_the_background_it_stays_ignored(ctrl_c):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ctrl_c.insisting_on_ctrl_c(AGAIN_S):
            signal.raise_signal(signal.SIGINT)
            time.sleep(3 * AGAIN_S)
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


def test_causes_that_go_round_in_a_circle_come_of_nothing(ctrl_c):
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__context__ = second, first
    assert not ctrl_c.came_of_ctrl_c(first)
    second.__cause__ = KeyboardInterrupt()
    assert ctrl_c.came_of_ctrl_c(first)


def test_a_fault_of_the_program_keeps_its_traceback(launch):
    with pytest.raises(ZeroDivisionError):
        launch.run_main(lambda: sys.exit(1 // 0))
