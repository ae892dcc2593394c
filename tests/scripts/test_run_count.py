"""How far many runs are, where there is no terminal."""

import importlib
import logging
import time
from types import ModuleType

import pytest


@pytest.fixture
def run_count(caplog) -> ModuleType:
    caplog.set_level(logging.INFO)
    return importlib.import_module("gpuyard.launch.terminal")


def test_without_a_terminal_the_log_says_how_far_it_is(run_count, monkeypatch, caplog):
    monkeypatch.setattr(run_count, "LINE_EVERY_S", 0.0)
    with run_count.RunCount("playing", 5, done=2) as count:
        count.tell("sjf window 0")
    assert caplog.messages == ["3/5 runs, 1 of them in 0.0 min; last: sjf window 0"]


def test_a_run_that_takes_longer_is_no_silence(run_count, monkeypatch, caplog):
    monkeypatch.setattr(run_count, "LINE_EVERY_S", 0.05)
    monkeypatch.setattr(run_count, "LOOK_EVERY_S", 0.01)
    with run_count.RunCount("playing", 5):
        deadline = time.monotonic() + 10
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)
    assert caplog.messages[0] == "0/5 runs, 0 of them in 0.0 min; last: none yet"


def test_a_line_is_written_no_more_than_once_a_minute(run_count, caplog):
    with run_count.RunCount("playing", 2) as count:
        count.tell("a")
        count.tell("b")
    assert caplog.messages == []
