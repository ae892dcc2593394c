"""Runs one group of training loops side by side, each in a process of its own."""

import importlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_bool, c_long
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, NamedTuple

import numpy as np

from interference.measuring.device import (
    Began,
    Failed,
    Line,
    LoopTask,
    MeasureError,
    Ran,
    Signals,
    Use,
    watching,
)
from sim.arrays import FloatArray

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def enter(task: LoopTask, signals: Signals, line: Line) -> None:
    """Train until told to stop, and answer what came of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _one_thread_if_pinned(task)
        from interference.measuring.training_loops import run_loop

        make = found(task.make)
        if task.cores:
            # Not before the imports, which would wait for each other on one core.
            os.sched_setaffinity(0, task.cores)
        line.pipe.send(run_loop(task, make, signals, line))
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        line.pipe.send(Failed(out_of_memory=is_out_of_memory(error), words=words))


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a class for a full GPU, but a bare RuntimeError for host memory and libraries."""
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)
    )


def found(path: str) -> Any:
    """What a dotted path names.

    Raises:
        MeasureError: there is no such module or name.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise MeasureError(f"makers: {path!r} cannot be imported ({error})") from error


def _one_thread_if_pinned(task: LoopTask) -> None:
    """Libraries read the number of their threads when they are imported."""
    if task.form == "cpu":
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _end_with_parent() -> None:
    """A loop whose parent was killed would train for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class OutOfMemory(Exception):
    """A loop found no memory: the group does not fit together."""


@dataclass
class LoopHandle:
    """A running loop and what it has said so far."""

    profile: str
    beside: str  # the others, in words
    process: SpawnProcess
    pipe: "Connection[Any, Any]"
    began_s: float | None = None
    ran: Ran | None = None

    @classmethod
    def start(
        cls,
        task: LoopTask,
        number: int,
        others: Sequence[str],
        signals: Signals,
        spawn: SpawnContext,
    ) -> "LoopHandle":
        """Start its process, which ends with this one."""
        ours, theirs = spawn.Pipe()
        line = Line(number=number, pipe=theirs)
        process = spawn.Process(target=enter, args=(task, signals, line), daemon=True)
        process.start()
        theirs.close()  # so that a loop that dies is noticed: nobody else holds its end
        beside = f" beside {' and '.join(others)}" if others else " alone"
        return cls(profile=task.profile, beside=beside, process=process, pipe=ours)

    def listen(self) -> None:
        """Take in one message.

        Raises:
            OutOfMemory: the loop found none.
            MeasureError: the loop died.
        """
        try:
            said = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise self._died(_exit_words(self.process.exitcode)) from None
        if isinstance(said, Began):
            self.began_s = said.at_s
        elif isinstance(said, Ran):
            self.ran = said
        elif isinstance(said, Failed) and said.out_of_memory:
            raise OutOfMemory(f"{self.profile}: {said.words}")
        elif isinstance(said, Failed):
            raise self._died(said.words)

    def end(self) -> None:
        """End the process if it still runs."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()

    def _died(self, words: str) -> MeasureError:
        return MeasureError(
            f"{self.profile}{self.beside} died: {words}; mend it or leave it out of profiles. "
            "Finished groups are kept: the same command goes on with the others"
        )


def _exit_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal {-code} (9 is what a full memory of the machine sends)"
    return f"it left with status {code} and no word"


class Speeds(NamedTuple):
    """Of every loop of a group, over the same window."""

    window_s: float
    steps_per_s: tuple[float, ...]
    busy: tuple[float, ...]  # CPU time over wall time


def common_speeds(loops: Sequence[Ran], warmup_s: float) -> Speeds:
    """From `warmup_s` after the last loop began until the first loop ended.

    A step that is cut by the window's border counts by the part inside, so that slow loops are not
    rounded to whole steps.
    """
    begin_s = max(float(ran.stamps_s[0]) for ran in loops) + warmup_s
    end_s = min(float(ran.stamps_s[-1]) for ran in loops)

    def rate(ran: Ran, count: FloatArray) -> float:
        before, after = np.interp([begin_s, end_s], ran.stamps_s, count)
        return float(after - before) / (end_s - begin_s)

    steps_per_s = tuple(rate(ran, np.arange(len(ran.stamps_s), dtype=float)) for ran in loops)
    return Speeds(end_s - begin_s, steps_per_s, tuple(rate(ran, ran.cpu_s) for ran in loops))


POLL_S = 0.05


@dataclass(frozen=True)
class Timing:
    """How long a group is measured."""

    warmup_s: float  # after all loops began, left out
    measure_s: float
    least_steps: int  # of every loop, if the time would not do for them
    patience_s: float  # longest a group may take beyond warm-up and measuring


@dataclass(frozen=True)
class Together:
    """What came of a group; without speeds it did not fit into memory."""

    feasible: bool
    window_s: float
    steps_per_s: tuple[float, ...]
    busy: tuple[float, ...]  # CPU time over wall time of each loop
    use: Use | None  # of the GPU, where one loop was alone on it
    words: str  # what the loop that found no memory said


def run_together(
    tasks: Sequence[LoopTask], timing: Timing, *, uuid: str | None, before_mib: float
) -> Together:
    """Start the loops together, let them run, and tell their speeds.

    Args:
        tasks: one loop each.
        timing: how long.
        uuid: of the GPU; sampled where one loop is alone on it.
        before_mib: memory that was held on the GPU before.

    Raises:
        MeasureError: a loop died, or the group takes too long.
    """
    spawn = multiprocessing.get_context("spawn")
    signals = Signals(
        barrier=spawn.Barrier(len(tasks)),
        stop=spawn.RawValue(c_bool, False),
        steps=spawn.RawArray(c_long, len(tasks)),
    )
    with _started(tasks, signals, spawn) as loops:
        try:
            use = _play(loops, signals, timing, uuid if len(tasks) == 1 else None, before_mib)
        except OutOfMemory as error:
            return Together(False, math.nan, (), (), None, str(error))
    speeds = common_speeds([loop.ran for loop in loops if loop.ran], timing.warmup_s)
    return Together(True, *speeds, use, "")


def _play(
    loops: list[LoopHandle], signals: Signals, timing: Timing, uuid: str | None, before_mib: float
) -> Use | None:
    """All begin, warm up, run for the time of measuring, are stopped and answer."""
    last_s = time.monotonic() + timing.patience_s + timing.warmup_s + timing.measure_s
    _follow(loops, lambda: all(loop.began_s is not None for loop in loops), last_s)
    warm_s = max(loop.began_s or 0.0 for loop in loops) + timing.warmup_s
    _follow(loops, lambda: time.monotonic() >= warm_s, last_s)
    wanted = [steps + timing.least_steps for steps in signals.steps]
    until_s = warm_s + timing.measure_s

    def measured() -> bool:
        enough = all(now >= least for now, least in zip(signals.steps, wanted, strict=True))
        return enough and time.monotonic() >= until_s

    with watching(uuid, before_mib) as watch:
        _follow(loops, measured, last_s)
    signals.stop.value = True
    _follow(loops, lambda: all(loop.ran is not None for loop in loops), last_s)
    return None if uuid is None else watch.use()


def _follow(loops: list[LoopHandle], until: Callable[[], bool], last_s: float) -> None:
    """Take in what the loops say until something holds."""
    while not until():
        if time.monotonic() > last_s:
            raise MeasureError(
                f"{' beside '.join(loop.profile for loop in loops)}: not done in time; raise "
                "patience_s, or leave the slow one out of profiles"
            )
        said = wait([loop.pipe for loop in loops if loop.ran is None], timeout=POLL_S)
        for loop in loops:
            if loop.pipe in said:
                loop.listen()


@contextmanager
def _started(
    tasks: Sequence[LoopTask], signals: Signals, spawn: SpawnContext
) -> Iterator[list[LoopHandle]]:
    """The processes of the loops, which are ended with the block whatever happens in it."""
    loops: list[LoopHandle] = []
    profiles = [task.profile for task in tasks]
    try:
        with _interrupts_held():
            for number, task in enumerate(tasks):
                others = profiles[:number] + profiles[number + 1 :]
                loops.append(LoopHandle.start(task, number, others, signals, spawn))
        yield loops
    finally:
        for loop in loops:
            loop.end()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches every process of the terminal; those started here never see it.

    They inherit what is blocked, and the process that measures ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
