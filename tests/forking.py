"""Programs in processes of their own, with everything imported: one parent forks them all.

Half of a short run is Python's start and imports. Tests of those, of signals, of terminals and of
trainings start a program as a user does.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from tests.once import look_up_once

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = (  # not Ray: it has threads, and takes the ports of the child before
    "torch", "numba", "pandas", "rich.console", "sim.simulator", "sim.scoring.linear_score",
    "gpuyard.evaluation.simulate", "gpuyard.evaluation.evaluate", "gpuyard.advice.advise",
    "gpuyard.reproduction.reproduce", "gpuyard.training.learn", "marl.policy.build",
    "scipy.stats", "matplotlib.backends.backend_agg", "matplotlib.figure", "pyarrow.parquet",
    "pyarrow.pandas_compat", "torch_geometric", "gnn.encoder", "marl.schedulers.marl",
    "joblib.externals.loky", "gpuyard.command",
)  # fmt: skip
TIMED_OUT = "timed out"
_left_with: list[int] = []  # status of this program, once it has ended by itself


def environment() -> dict[str, str]:
    """Of programs that tests start."""
    kept = {k: v for k, v in os.environ.items() if k not in {"DEBUG", "HYDRA_FULL_ERROR"}}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def run_program(
    words: Sequence[str],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """`python WORDS`, with `env` beside what this process has: what it printed, and its status.

    Raises:
        subprocess.TimeoutExpired: it was ended then.
    """
    with tempfile.TemporaryDirectory() as folder:
        printed = {name: str(Path(folder, name)) for name in ("out", "err")}
        told = {"words": list(words), "cwd": str(cwd), "timeout": timeout}
        told["env"] = {**environment(), **(env or {})}
        parent = _parent()
        parent.stdin.write(json.dumps(told | printed) + "\n")
        parent.stdin.flush()
        answer = parent.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the process that forks has ended; it printed why")
        if answer == TIMED_OUT:
            raise subprocess.TimeoutExpired(list(words), timeout)
        out, err = (Path(path).read_text("utf-8") for path in printed.values())
    return subprocess.CompletedProcess(list(words), int(answer), out, err)


@cache
def _parent() -> Any:
    """The process that forks; it ends with this one."""
    started = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    atexit.register(started.communicate)
    return started


def leave() -> None:
    """End without taking apart what was imported: half a second, as its pages are the parent's."""
    if _left_with:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_left_with[0])


def serve() -> None:
    """Fork for every line of standard input, and answer with the status."""
    atexit.register(leave)  # before all others, thus called after them
    for name in IMPORTED:
        importlib.import_module(name)
    look_up_once(ROOT / "conf")
    with redirect_stdout(sys.stderr):  # answers go to standard output
        # Hydra's plugins, numba's targets and compiled functions are loaded with a short run.
        importlib.import_module("gpuyard.api.running").simulate(
            "venus_like", "headline_leaf_spine", "sjf", overrides=["workload.num_jobs=20"]
        )
    assert "ray" not in sys.modules
    assert threading.active_count() == 1  # no other comes along, nor does a lock that it holds
    gc.freeze()  # children need not look through all of it, which would copy it
    gc.set_threshold(20_000)
    unread = sys.stdin.buffer.raw  # what is read ahead, a child would have as well
    while line := unread.readline():
        told = json.loads(line)
        child = os.fork()
        if child == 0:
            become(told)
            return
        os.write(1, f"{_status(child, told['timeout'])}\n".encode())


def become(told: Mapping[str, Any]) -> None:
    """Be the program that was asked for, from here to this process's end."""
    for number, path, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, told["out"], os.O_WRONLY | os.O_CREAT),
        (2, told["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, how, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    try:
        _run(*told["words"])
        _left_with.append(0)
    except SystemExit as ended:
        _left_with.append(ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


def _run(first: str, *rest: str) -> None:
    """A module or a file as a program."""
    if first == "-m":
        sys.path[0], sys.argv = str(Path.cwd()), list(rest)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = str(Path(first).parent), [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _status(child: int, timeout: float) -> str:
    """Of a child that has ended, or was made to after so many seconds."""
    last = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return str(os.waitstatus_to_exitcode(status))
        if time.monotonic() > last:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(0.005)


if __name__ == "__main__":
    serve()
