"""Programs in processes of their own, with everything imported: one parent forks them all.

Half of a short run is Python's start and imports. Tests of those, of signals, of terminals and of
trainings start a program as a user does; tests of compiling have a parent with numba alone.
Processes that share the tests of a session share the parents: each has a fork of them that forks
what it asks for.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
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
BARE = "numba"  # the parent of programs that import this project themselves
TIMED_OUT = "timed out"
TRIES = 200  # to reach the process that forks, 0.05 s apart
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
    bare: bool = False,
) -> subprocess.CompletedProcess[str]:
    """`python WORDS`, with `env` beside what this process has: what it printed, and its status.

    With `bare` nothing is imported yet but numba.

    Raises:
        subprocess.TimeoutExpired: it was ended then.
    """
    with tempfile.TemporaryDirectory() as folder:
        printed = {name: str(Path(folder, name)) for name in ("out", "err")}
        told = {"words": list(words), "cwd": str(cwd), "timeout": timeout}
        told["env"] = {**environment(), **(env or {})}
        parent = _parent(BARE if bare else "")
        parent.write(json.dumps(told | printed) + "\n")
        parent.flush()
        answer = parent.readline().strip()
        if not answer:
            raise RuntimeError("the process that forks has ended; it printed why")
        if answer == TIMED_OUT:
            raise subprocess.TimeoutExpired(list(words), timeout)
        out, err = (Path(path).read_text("utf-8") for path in printed.values())
    return subprocess.CompletedProcess(list(words), int(answer), out, err)


@cache
def _parent(kind: str) -> Any:
    """Lines to and from the process that forks: of this session, which the first to ask starts."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    address = Path(tempfile.gettempdir()) / f"gpuyard-forking-{session}{kind}"  # 104 at most
    for _ in range(TRIES):
        line = socket.socket(socket.AF_UNIX)
        with suppress(FileNotFoundError, ConnectionRefusedError):  # nobody is there yet
            line.connect(str(address))
            return line.makefile("rw", encoding="utf-8")
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.bind(str(address))
            except OSError:  # another is just doing so
                time.sleep(0.05)
                continue
            atexit.register(address.unlink, missing_ok=True)
            door.listen()  # from here on others wait until it answers
            _start(door, kind)
    raise RuntimeError(f"nobody answers at {address}, and it is taken; remove it")


def _start(door: socket.socket, kind: str) -> None:
    """The process that forks for whoever comes to `door`; it ends with this one."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    if kind == BARE:  # programs edit modules faster than bytecode tells apart: by seconds
        env["PYTHONDONTWRITEBYTECODE"] = "1"
    started = subprocess.Popen(
        [sys.executable, __file__, str(door.fileno()), kind], pass_fds=[door.fileno()],
        stdin=subprocess.PIPE, env=env,
    )  # fmt: skip
    atexit.register(started.communicate)


def leave() -> None:
    """End without taking apart what was imported: half a second, as its pages are the parent's."""
    if _left_with:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_left_with[0])


def import_all() -> None:
    """And look up what programs look up."""
    for name in IMPORTED:
        importlib.import_module(name)
    look_up_once(ROOT / "conf")
    with redirect_stdout(sys.stderr):  # what tests print is not for it
        # Hydra's plugins, numba's targets and compiled functions are loaded with a short run.
        importlib.import_module("gpuyard.api.running").simulate(
            "venus_like", "headline_leaf_spine", "sjf", overrides=["workload.num_jobs=20"]
        )
    pages = importlib.import_module("gpuyard.pages.page")
    figure = pages.Figure("", [], {})  # Plotly's script is gzipped, and the template compiled, once
    pages.rendered(pages.Page("", "", sections=(figure,)))


def serve(door: socket.socket, kind: str) -> None:
    """Fork for everyone who comes, and there for every line; as long as standard input is open."""
    atexit.register(leave)  # before all others, thus called after them
    if kind == BARE:  # and what it loads when it first compiles
        importlib.import_module(kind).njit(lambda value: value + 1)(1)
    else:
        import_all()
    assert "ray" not in sys.modules
    assert threading.active_count() == 1  # no other comes along, nor does a lock that it holds
    gc.freeze()  # children need not look through all of it, which would copy it
    gc.set_threshold(20_000)
    while door in select.select([door, sys.stdin], [], [])[0]:
        line, _ = door.accept()
        if os.fork() == 0:
            door.close()
            return answer(line)
        line.close()


def answer(line: socket.socket) -> None:
    """Fork for every line, and answer with the status."""
    unread = line.makefile("rb", buffering=0)
    while asked := unread.readline():
        told = json.loads(asked)
        child = os.fork()
        if child == 0:
            unread.close()
            line.close()
            return become(told)
        line.sendall(f"{_status(child, told['timeout'])}\n".encode())
    os._exit(0)


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
    if sys.argv[2] == BARE:
        sys.modules["numba"].core.config.reload_config()  # as these say
    os.chdir(told["cwd"])
    try:
        _run(*told["words"])
        _left_with.append(0)
    except SystemExit as ended:
        _left_with.append(ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


def _run(first: str, *rest: str) -> None:
    """A text, a module or a file as a program."""
    if first == "-c":
        sys.modules["__main__"] = main = ModuleType("__main__")
        sys.path[0], sys.argv = str(Path.cwd()), [first, *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif first == "-m":
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
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
