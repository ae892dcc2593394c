"""What compiles is told, once and by the main process alone; what is kept is not."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def start(cache: Path, *, body: str = ONCE, shortest_s: float = 0.0, **options):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    program = PROGRAM.replace("BODY", body).replace("LEAST", str(shortest_s))
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
        **{"stderr": subprocess.PIPE, **options},
    )  # fmt: skip


def errors(cache: Path, **options) -> str:
    process = start(cache, **options)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert out.decode().strip() == "[0, 1, 2, 3]"
    return err.decode()


def test_off_a_terminal_one_line_and_silence_once_it_is_kept(tmp_path):
    (line,) = errors(tmp_path).splitlines()
    told = rf"gpuyard.launch.terminal: compiling {NAME}: once for this kind of run, "
    told += r"about \d+ s; kept in "
    assert re.fullmatch(told + re.escape(str(tmp_path)), line)
    assert errors(tmp_path) == ""


def test_what_is_over_at_once_and_what_a_worker_compiles_is_not_told(tmp_path):
    assert errors(tmp_path / "short", shortest_s=1000.0) == ""
    assert errors(tmp_path / "forked", body=FORKED) == ""


def test_on_a_terminal_a_line_and_a_bar_that_goes_away(tmp_path):
    ours, theirs = pty.openpty()
    process = start(tmp_path, stderr=theirs)
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
