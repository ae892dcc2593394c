"""Runs one group of training loops side by side, each in a process of its own."""

import math
import multiprocessing
import os
import pkgutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_bool, c_double, c_long
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from interference.measuring.device import Form, MeasureError, Use, use_of, watching
from sim.arrays import FloatArray

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
POLL_S = 0.05
FIRST_STEPS = 3  # before the barrier: the first ones allocate memory and choose kernels
Timing = Mapping[str, float]  # warmup_s, measure_s, least_steps, patience_s, as configured


@dataclass(frozen=True)
class LoopTask:
    """One training loop."""

    profile: str  # "model/batch"
    make: str  # dotted path of the function that makes the model
    batch: int
    form: Form
    cores: tuple[int, ...]  # to be pinned to; empty: to none
    seed: int


@dataclass(frozen=True)
class Together:
    """What came of a group; without speeds it did not fit into memory."""

    feasible: bool
    window_s: float
    steps_per_s: tuple[float, ...]
    busy: tuple[float, ...]  # CPU time over wall time of each loop
    use: Use | None  # of the device, where one loop was alone on it
    words: str  # what the loop that found no memory said


class Shared(NamedTuple):
    """What the loops share with the process that measures.

    Nothing locks once they train: a loop put aside while holding a lock would stop the others.
    """

    barrier: Barrier
    began_s: Any  # array of c_double, one a loop: when it passed the barrier; 0 before
    steps: Any  # array of c_long, one a loop: steps done so far
    stop: Any  # c_bool: set when everything is measured


class Ran(NamedTuple):
    """What a loop answers when it is stopped."""

    stamps_s: FloatArray  # (steps + 1,) monotonic: when it began, then the end of each step
    cpu_s: FloatArray  # (steps + 1,) CPU time of the process at each stamp


class OutOfMemory(Exception):
    """A loop found no memory: the group does not fit together."""


Pipe: TypeAlias = "Connection[Any, Any]"
Loops = dict[Pipe, SpawnProcess]  # each by the pipe on which it answers, named after its profile


def run_together(
    tasks: Sequence[LoopTask], timing: Timing, *, uuid: str | None, before_mib: float
) -> Together:
    """Start the loops together, let them run, and tell their speeds; all have ended then.

    A loop alone is also watched on the GPU of this `uuid`, where others held `before_mib` before.

    Raises:
        MeasureError: a loop died, or the group takes too long.
    """
    spawn, count = multiprocessing.get_context("spawn"), len(tasks)
    began_s, steps = spawn.RawArray(c_double, count), spawn.RawArray(c_long, count)
    shared = Shared(spawn.Barrier(count), began_s, steps, spawn.RawValue(c_bool, False))
    loops: Loops = {}
    # Ctrl-C reaches every process of the terminal. Those started here never see it: they inherit
    # what is blocked, and this process ends them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for number, task in enumerate(tasks):
            ours, theirs = spawn.Pipe()
            given = (task, number, theirs, shared)
            process = spawn.Process(target=enter, args=given, name=task.profile, daemon=True)
            process.start()
            theirs.close()  # so that a loop that dies is noticed: nobody else holds its end
            loops[ours] = process
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ran, lines = _play(loops, shared, timing, uuid if count == 1 else None)
    except OutOfMemory as error:
        return Together(False, math.nan, (), (), None, str(error))
    finally:
        for pipe, process in loops.items():
            process.terminate()
            process.join()
            pipe.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    found = common_speeds(ran, timing["warmup_s"])
    if count > 1:
        return found
    of_cores = min(found.busy[0] / max(len(tasks[0].cores), 1), 1.0)
    use = Use(of_cores, math.nan, math.nan) if uuid is None else use_of(lines, before_mib)
    return replace(found, use=use)


def _play(
    loops: Loops, shared: Shared, timing: Timing, uuid: str | None
) -> tuple[list[Ran], list[str]]:
    """All begin, warm up, run for the time of measuring, are stopped and answer.

    Also what `watching` the GPU of this `uuid` meanwhile told.
    """
    last_s = time.monotonic() + timing["patience_s"] + timing["warmup_s"] + timing["measure_s"]
    ran: dict[Pipe, Ran] = {}

    def follow(until: Callable[[], bool]) -> None:
        while not until():
            if time.monotonic() > last_s:
                raise MeasureError(
                    f"{' beside '.join(loop.name for loop in loops.values())}: not done in time; "
                    "raise patience_s, or leave the slow one out of profiles"
                )
            said = wait([pipe for pipe in loops if pipe not in ran], timeout=POLL_S)
            ran.update({pipe: _answer(pipe, loops) for pipe in loops if pipe in said})

    follow(lambda: all(shared.began_s))
    warm_s = max(shared.began_s) + timing["warmup_s"]
    follow(lambda: time.monotonic() >= warm_s)
    end_s, wanted = warm_s + timing["measure_s"], np.array(shared.steps) + timing["least_steps"]
    with watching(uuid) as lines:
        follow(lambda: time.monotonic() >= end_s and all(np.array(shared.steps) >= wanted))
    shared.stop.value = True
    follow(lambda: len(ran) == len(loops))
    return [ran[pipe] for pipe in loops], lines


def _answer(pipe: Pipe, loops: Loops) -> Ran:
    """What a loop says at its end; raises if that is no result, or nothing."""
    loop = loops[pipe]
    try:
        said = pipe.recv()
    except EOFError:
        loop.join()
        code = loop.exitcode or 0
        said = f"it left with status {code} and no word"
        if code < 0:
            said = f"killed by signal {-code} (9 is what a full memory of the machine sends)"
    if isinstance(said, Ran):
        return said
    if isinstance(said, OutOfMemory):
        raise OutOfMemory(f"{loop.name}: {said}")
    others = " and ".join(other.name for other in loops.values() if other is not loop)
    raise MeasureError(
        f"{loop.name} {f'beside {others}' if others else 'alone'} died: {said}; mend it or leave "
        "it out of profiles. Finished groups are kept: the same command goes on with the others"
    )


def enter(task: LoopTask, number: int, pipe: Pipe, shared: Shared) -> None:
    """In a process of its own: train until told to stop, and answer what came of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if task.form == "cpu":  # libraries read the number of their threads when imported
            os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        make = found(task.make)
        if task.cores:
            # Not before the imports, which would wait for each other on one core.
            os.sched_setaffinity(0, task.cores)
        pipe.send(run_loop(task, make, number, shared))
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        pipe.send(OutOfMemory(words) if is_out_of_memory(error) else words)


def run_loop(task: LoopTask, make: Callable[[Form, int], Any], number: int, shared: Shared) -> Ran:
    """Make the model, wait for the others, train until `shared.stop`."""
    import torch

    from interference.measuring.training_loops import gpu_finished, steps_of

    torch.manual_seed(task.seed)
    if task.form == "cpu":
        torch.set_num_threads(1)
    step = steps_of(make(task.form, task.batch), torch.device(task.form), task.seed)
    for _ in range(FIRST_STEPS):
        step()
    if task.form == "cuda":
        torch.cuda.synchronize()
    shared.barrier.wait()
    stamps_s, cpu_s = [time.monotonic()], [time.process_time()]
    shared.began_s[number] = stamps_s[0]
    finished = gpu_finished() if task.form == "cuda" else time.monotonic
    while not shared.stop.value:
        step()
        stamps_s.append(finished())
        cpu_s.append(time.process_time())
        shared.steps[number] += 1
    return Ran(np.array(stamps_s), np.array(cpu_s))


def _end_with_parent() -> None:
    """A loop whose parent was killed would train for ever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def found(path: str) -> Any:
    """What a dotted path names; a MeasureError if there is no such module or name."""
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise MeasureError(f"makers: {path!r} cannot be imported ({error})") from error


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a class for a full GPU, but a bare RuntimeError for host memory and libraries."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def common_speeds(loops: Sequence[Ran], warmup_s: float) -> Together:
    """Speeds from `warmup_s` after the last loop began until the first loop ended.

    A step that is cut by the window's border counts by the part inside, so that slow loops are not
    rounded to whole steps.
    """
    begin_s = max(float(ran.stamps_s[0]) for ran in loops) + warmup_s
    end_s = min(float(ran.stamps_s[-1]) for ran in loops)

    def rate(ran: Ran, count: FloatArray) -> float:
        before, after = np.interp([begin_s, end_s], ran.stamps_s, count)
        return float(after - before) / (end_s - begin_s)

    steps_per_s = tuple(rate(ran, np.arange(len(ran.stamps_s), dtype=float)) for ran in loops)
    busy = tuple(rate(ran, ran.cpu_s) for ran in loops)
    return Together(True, end_s - begin_s, steps_per_s, busy, None, "")
