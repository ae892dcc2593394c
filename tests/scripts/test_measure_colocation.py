"""`measure_colocation.py` on cores of the CPU: what shares a core is slower, what fails is told.

Nothing here depends on how long a step takes: a loop is compared with itself on the same machine.
"""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="nothing pins a process to a core here"
)
TINY = ("device=cpu", "warmup_s=0.1", "measure_s=0.3", "least_steps=5", "repeats=1")
# `hog` fits once: a lock that its process holds until it ends stands for the memory.
MODELS = """
import fcntl
import os
import signal
from pathlib import Path

import torch
from interference.measuring.training_loops import mlp

FOLDER = Path(__file__).parent
held = []


def hog(form, batch):
    held.append(open(FOLDER / "memory", "w"))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory") from None
    return mlp(form, batch)


def huge(form, batch):
    raise MemoryError


def broken(form, batch):
    raise ValueError("no such layer")


def killed(form, batch):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the program on `profiles`, with the models above; the same folder each time."""
    (tmp_path / "own_models.py").write_text(MODELS)

    def run(profiles: str, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(tmp_path, profiles, *words),
            cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done

    return run


def command(folder: Path, profiles: str, *words: str) -> list[str]:
    makers = [f"+makers.{name}=own_models.{name}" for name in ("hog", "huge", "broken", "killed")]
    program = [sys.executable, str(ROOT / "scripts" / "measure_colocation.py"), *TINY, *makers]
    given = [f"cpu.profiles=[{profiles}]", "cpu.mixes=[]", *words]  # the last word counts
    return [*program, *given, f"out={folder / 'out'}"]


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"DEBUG", "HYDRA_FULL_ERROR"}}
    return kept | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder)))}


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "out" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def parts(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (folder / "out" / "parts").glob("*.json")}


@pytest.mark.slow
def test_sharing_slows_memory_limits_and_what_is_there_is_not_measured_again(measure, tmp_path):
    pairs = "cpu.pairs=[[mlp/8,mlp/8],[hog/8,hog/8]]"
    done = measure("mlp/8,hog/8", pairs)
    assert done.returncode == 0, done.stderr
    assert "cpu_1_core, shared by turns" in done.stdout
    rows = read(tmp_path, "colocation.csv")
    alone, together, full = rows[:2], rows[2:4], rows[4:]
    assert [(r["victim"], r["aggressors"], r["norm_speed"], r["measured"]) for r in alone] == [
        ("mlp/8", "", "1.0", "0"), ("hog/8", "", "1.0", "0"),
    ]  # fmt: skip
    assert {row["aggressors"] for row in together} == {"mlp/8"}
    assert len({row["group"] for row in together}) == 1
    assert [(r["norm_speed"], r["feasible"], r["measured"]) for r in full] == [("", "0", "1")] * 2
    solos = read(tmp_path, "solo_profiles.csv")
    assert [(s["profile"], s["model"], s["batch"], s["gpus"]) for s in solos] == [
        ("mlp/8", "mlp", "8", "1"), ("hog/8", "hog", "8", "1"),
    ]  # fmt: skip
    assert all(float(s["step_s"]) > 0 and 0 < float(s["gpu_util"]) <= 1 for s in solos)
    # Two loops that could each fill the core. Others may have used it while one was alone: by its
    # part of the core then, speeds count as those of an idle machine.
    idle = [float(row["norm_speed"]) * float(solos[0]["gpu_util"]) for row in together]
    assert all(0.0 < speed < 0.8 for speed in idle)
    assert sum(idle) < 1.3

    before = parts(tmp_path)
    again = measure("mlp/8,hog/8", pairs)
    assert (again.returncode, parts(tmp_path)) == (0, before)
    assert read(tmp_path, "colocation.csv") == rows

    # A loop that dies names itself; what is measured stays.
    for profile, told in (("broken/1", "ValueError: no such layer"), ("killed/1", "signal 9")):
        died = measure(f"mlp/8,{profile}", "cpu.pairs=[]")
        assert died.returncode == 1
        assert f"error: {profile} alone died" in died.stderr
        assert told in died.stderr
        assert read(tmp_path, "colocation.csv") == rows[:1]
    assert parts(tmp_path) == before


def test_what_does_not_fit_alone_is_left_out_and_said(measure, tmp_path):
    done = measure("huge/1,mlp/8", "cpu.pairs=[[mlp/8,huge/1]]")
    assert done.returncode == 0
    assert "does not fit alone, left out: huge/1: MemoryError" in done.stderr
    assert "huge/1 + mlp/8: not run" in done.stderr
    assert [row["victim"] for row in read(tmp_path, "colocation.csv")] == ["mlp/8"]
    assert [solo["profile"] for solo in read(tmp_path, "solo_profiles.csv")] == ["mlp/8"]
    late = measure("mlp/9", "cpu.pairs=[]", "patience_s=0")
    assert late.returncode == 1
    assert "error: mlp/9: not done in time; raise patience_s" in late.stderr


def running(group: int) -> list[str]:
    """Names of the processes of a group that have not ended."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    )
    found = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [args for pgid, stat, args in found if int(pgid) == group and stat[0] != "Z"]


def test_ctrl_c_keeps_what_is_measured_and_leaves_no_loop(tmp_path):
    words = command(tmp_path, "mlp/8", "cpu.pairs=[]", "repeats=1000")
    program = subprocess.Popen(
        words, cwd=ROOT, env=environment(tmp_path), stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    end_s = time.monotonic() + 200
    while len(parts(tmp_path)) < 1 and time.monotonic() < end_s:
        time.sleep(0.1)
    time.sleep(0.5)  # into the next round
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    _, told = program.communicate(timeout=100)
    assert program.returncode == 130, told
    assert "Traceback" not in told
    assert {row["victim"] for row in read(tmp_path, "colocation.csv")} == {"mlp/8"}
    end_s = time.monotonic() + 60
    while running(program.pid) and time.monotonic() < end_s:
        time.sleep(0.1)
    assert running(program.pid) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("device=gpu",), "device is 'gpu'"),
        (("cpu.cores=100000",), "cpu.cores is 100000"),
        (("repeats=0",), "repeats is 0"),
        (("cpu.profiles=[mlp]",), "'mlp' is no model/batch"),
        (("cpu.profiles=[mpl/8]",), "no makers.mpl"),
        (("cpu.profiles=[]",), "cpu.profiles is []; it must be a list of MODEL/BATCH"),
        (("cpu.profiles=[3]",), "cpu.profiles is [3]; it must be a list of MODEL/BATCH"),
        (("cpu.pairs=[3]",), "cpu.pairs[0] is 3; it must be a list of MODEL/BATCH"),
        (("cpu.pairs=some",), "cpu.pairs is 'some'"),
        (("cpu.pairs=[[mlp/8,mlp/9]]",), "did you mean 'mlp/8'?"),
        (("cpu.mixes=[[mlp/8,mlp/8]]",), "fewer than three"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path, words, told):
    done = run_program(command(tmp_path, "mlp/8", *words)[1:])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error:") == 1
    assert told in done.stderr
    assert not list(tmp_path.rglob("*.csv"))
