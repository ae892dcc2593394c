"""Progress of a run and what compiles: what is said, where, once, and how little it costs."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from gpuyard.launch import terminal as progress
from sim.report.table_text import TableText, rich_tables
from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def simulator():
    """2,000 jobs submitted from 100 s on, of which 7 wait."""
    state = SimpleNamespace(world=np.array([(7,)], dtype=[("num_queued", np.int64)]))
    return SimpleNamespace(jobs=Jobs(), state=state)


class Jobs:
    submit_s = np.array([100.0])

    def __len__(self):
        return 2000


def test_words_tell_days_speed_queue_and_time_left(simulator):
    meter = progress.Lines(simulator, "fifo")
    meter._began -= 10.0  # ten seconds ago
    words = meter.words(500, 100.0 + 2 * 86400)
    assert words.startswith("day 2.0, ")
    jobs_per_s, speed = words.split(", ")[1], words.split(", ")[2]
    assert 49 <= float(jobs_per_s.split()[0]) <= 50
    assert 17_000 < float(words.split("jobs/s, ")[1].split(" x")[0].replace(",", "")) < 17_281
    assert "7 waiting" in words and words.endswith("0:30 left"), speed


def test_nothing_is_left_to_divide_by(simulator):
    assert "? left" in progress.Lines(simulator, "fifo").words(0, 0.0)


def test_a_file_gets_a_line_every_half_minute_and_no_more(simulator, monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    lines = progress.Lines(simulator, "fifo")
    for _ in range(100):
        lines.tell(500, 1e5)
    assert err.getvalue() == ""
    lines._last_line_s -= progress.RUN_LINE_EVERY_S
    for _ in range(100):
        lines.tell(500, 1e5)
    assert err.getvalue().count("\n") == 1
    assert err.getvalue().startswith("fifo: 500/2,000 jobs (25%), day 1.2, ")


def test_times_are_clocks():
    assert [progress.clock_text(s) for s in (0.2, 59.6, 3725.0)] == ["0:00", "1:00", "1:02:05"]


def test_a_terminal_gets_a_bar(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable, str(ROOT / "scripts" / "simulate.py"), "workload.num_jobs=200",
            "topology=small_leaf_spine", f"hydra.run.dir={tmp_path}",
        ],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the other end is closed
        pass
    assert process.wait(timeout=120) == 0
    os.close(ours)
    assert b"fifo+consolidated" in shown and b"0/200" in shown


@pytest.fixture
def run_count(caplog) -> ModuleType:
    caplog.set_level(logging.INFO)
    return progress


def test_without_a_terminal_the_log_says_how_far_it_is(run_count, monkeypatch, caplog):
    monkeypatch.setattr(run_count, "LINE_EVERY_S", 0.0)
    with run_count.RunCount("playing", 5, done=2) as count:
        count.tell("sjf window 0")
    assert caplog.messages == ["3/5 runs, 1 of them in 0.0 min; last: sjf window 0"]


def test_those_that_run_now_are_named(run_count, monkeypatch, caplog):
    monkeypatch.setattr(run_count, "LINE_EVERY_S", 0.0)
    with run_count.RunCount("playing", 3, ahead=["easy", "las", "sjf"], at_once=2) as count:
        for name in ("las", "easy", "sjf"):
            count.tell(name)
    assert [words.partition("last: ")[2] for words in caplog.messages] == [
        "las; now: easy | sjf", "easy; now: sjf", "sjf",
    ]  # fmt: skip


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


NAME = "sim.physics.max_min.sort_up"
PROGRAM = """
import logging, sys
import numpy as np
from gpuyard.launch import terminal
from sim.physics.max_min import sort_up

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
terminal.SHORTEST_S = LEAST

VALUES = np.array([3, 1, 2, 0])

def in_order(values):
    sort_up(values, 4)
    return values.tolist()

with terminal.telling_what_compiles():
    BODY
print(in_order(VALUES))
"""
ONCE = "in_order(VALUES); in_order(VALUES.repeat(2)[::2])"  # two compilations: types differ
FORKED = """
    import os
    if os.fork() == 0:
        in_order(VALUES)
        os._exit(0)
    os.wait()
"""


def program(body: str = ONCE, shortest_s: float = 0.0) -> str:
    return PROGRAM.replace("BODY", body).replace("LEAST", str(shortest_s))


def errors(cache: Path, *given: str | float) -> str:
    env = {"NUMBA_CACHE_DIR": str(cache)}
    done = run_program(["-c", program(*given)], env=env, bare=True)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3]\n"), done.stderr
    return done.stderr


def test_off_a_terminal_one_line_and_silence_once_it_is_kept(tmp_path):
    (line,) = errors(tmp_path).splitlines()
    told = rf"gpuyard.launch.terminal: compiling {NAME}: once for this kind of run, "
    told += r"about \d+ s; kept in "
    assert re.fullmatch(told + re.escape(str(tmp_path)), line)
    assert errors(tmp_path) == ""


def test_what_is_over_at_once_and_what_a_worker_compiles_is_not_told(tmp_path):
    assert errors(tmp_path / "short", ONCE, 1000.0) == ""
    assert errors(tmp_path / "forked", FORKED) == ""


def test_on_a_terminal_a_line_and_a_bar_that_goes_away(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program()], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=theirs,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=120) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())
    assert len(re.findall(f"compiling {NAME}: once for this kind of run, about", text)) == 1
    assert re.search(r"compiling +\d+/\d+ functions 0:00:0\d", text)
    assert "launch.terminal" not in text  # no log line beside it
    assert written.rstrip().endswith(b"\x1b[2K")  # what moved is erased


def test_a_headline_that_goes_to_a_file_is_not_cut_off(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    headers = ("against", "picked on", "scheduler", "ours / theirs", "mean JCT [h]", "p50 [h]",
               "p95 [h]", "p99 [h]", "mean slow-down", "queueing delay [h]", "GPU use [%]",
               "Jain of waits", "longest wait [h]")  # fmt: skip
    names = ("best composite", "test", "sjf+compact_wait+selective1.2+steal")
    row = (*names, *["12.3 ± 0.4"] * 9, "0.684 ± 0.002")
    progress.table_console().print(rich_tables(TableText(headers, (("a", (row,)),), "")))
    assert "0.684 ± 0.002" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 80, 130])
def test_a_narrow_terminal_folds_names_and_cuts_no_number(capsys, columns: int):
    numbers = [f"{place}.684 ± 172,800.0" for place in range(9)]
    headers = ("scheduler", "role", "information", *(f"number {at} [h]" for at in range(9)))
    name = "smallest_gang+consolidated+selective1.2+least_loaded"
    text = TableText(headers, (("title", ((name, "composite", "predicted", *numbers),)),), "note")
    Console(width=columns, color_system=None).print(rich_tables(text))
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert [each for each in (*numbers, "composite", "predicted") if each not in out] == []
    assert max(map(len, lines)) <= columns and "…" not in out
    assert sum("title" in line for line in lines) == 1
