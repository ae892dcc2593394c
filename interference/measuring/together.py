"""Runs one group of training loops side by side, each in a process of its own."""

import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_bool, c_long
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext

from interference.measuring.errors import MeasureError
from interference.measuring.gpu_use import Use, watching
from interference.measuring.loop_handle import LoopHandle, OutOfMemory
from interference.measuring.messages import LoopTask, Signals
from interference.measuring.window import common_speeds

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
