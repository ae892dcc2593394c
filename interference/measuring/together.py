"""A group of training loops side by side on the device that they share, each in its own process."""

import math
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_double, c_long
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.synchronize import Barrier
from typing import Any, Literal, NamedTuple

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError

Form = Literal["cuda", "cpu"]  # sizes for a GPU, or small ones for a CPU core
Timing = Mapping[str, float]  # warmup_s, measure_s, least_steps, patience_s, as configured
FIRST_GPU = (
    "from torch.cuda import get_device_properties as of; print(of(0).name, of(0).uuid, sep='|')"
)
QUERY = "--query-gpu=utilization.gpu,utilization.memory,memory.used"
SMI = ("nvidia-smi", QUERY, "--format=csv,noheader,nounits")
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


class MeasureError(GpuYardError):
    """A measurement cannot be made; the message names the loop, what it said, and a way out."""


class Device(NamedTuple):
    """What is shared, and how."""

    form: Form
    gpu_type: str  # as in the rows
    how: str  # "time_slicing", "mps", "cpu_cores" or, where nothing can be pinned, "unpinned"
    cores: tuple[int, ...] = ()  # that every loop is pinned to; empty: to none
    uuid: str | None = None  # of the GPU


def find_device(wanted: str, cores: int) -> Device:
    """The GPU if there is one or it is `wanted`, else `cores` cores of the CPU.

    Raises:
        MeasureError: an unknown wish, no GPU where one is wanted, or too few cores.
    """
    if wanted not in ("auto", "cuda", "cpu"):
        raise MeasureError(f"device is {wanted!r}; it must be auto, cuda or cpu")
    # Asked in a process that ends: whoever holds the GPU takes memory from the loops.
    if wanted != "cpu" and (gpu := output_of(sys.executable, "-c", FIRST_GPU)):
        name, uuid = gpu.strip().split("|")
        mps = output_of("nvidia-cuda-mps-control", asked="get_server_list\n") is not None
        return Device("cuda", name, "mps" if mps else "time_slicing", uuid=f"GPU-{uuid}")
    if wanted == "cuda":
        raise MeasureError(
            "device is 'cuda', but torch.cuda.is_available() is false here; use device=cpu, or a "
            "build of PyTorch and a driver for the GPU"
        )
    name = f"cpu_{cores}_core" + ("s" if cores > 1 else "")
    if not hasattr(os, "sched_setaffinity"):
        return Device("cpu", name, "unpinned")
    usable = sorted(os.sched_getaffinity(0))
    if cores > len(usable):
        raise MeasureError(f"cpu.cores is {cores}, but this process may use {len(usable)} only")
    # The last ones: the first tend to be busier.
    return Device("cpu", name, "cpu_cores", tuple(usable[-cores:]))


def output_of(*command: str, asked: str = "") -> str | None:
    """What a program says; None where it is not there, fails, or takes minutes."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=300, check=True
        ).stdout
    return None


@dataclass(frozen=True)
class Use:
    """Mean shares of the time in which kernels ran or memory was read, and the most memory held."""

    gpu_util: float  # 0..1, of its cores where a loop runs on the CPU; NaN where unknown
    gmem_util: float = math.nan  # 0..1
    gmem_mib: float = math.nan


def memory_held_mib(uuid: str) -> float:
    """Memory that anybody holds on the GPU now; NaN where nvidia-smi does not tell."""
    return use_of((output_of(*SMI, f"--id={uuid}") or "").splitlines()).gmem_mib


@contextmanager
def watching(uuid: str | None) -> Iterator[list[str]]:
    """Lines for `use_of`, there once the block is over; none without nvidia-smi or a GPU."""
    lines: list[str] = []
    sampler, command = None, (*SMI, f"--id={uuid}", "--loop-ms=200")
    with suppress(OSError):
        if uuid is not None:
            sampler = subprocess.Popen(command, stdout=-1, stderr=subprocess.DEVNULL, text=True)
    yield lines
    if sampler is not None:  # where the block fails, its process ends, and with their pipe this one
        sampler.terminate()
        lines += sampler.communicate()[0].splitlines()


def use_of(lines: Sequence[str], before_mib: float = 0.0) -> Use:
    """The summary of lines "percent, percent, MiB"; a column that is no number is unknown.

    Of the loop alone: memory that others held before is taken off.
    """
    # The last line may be cut where the sampler was ended.
    whole = [line for line in lines if line.count(",") == QUERY.count(",")]
    gpu, memory, held_mib = np.genfromtxt(whole or [",,"], delimiter=",", ndmin=2).T
    most_mib = max(float(held_mib.max()) - before_mib, 0.0)
    return Use(float(gpu.mean()) / 100.0, float(memory.mean()) / 100.0, most_mib)


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
    window_s: float = math.nan
    steps_per_s: tuple[float, ...] = ()
    busy: tuple[float, ...] = ()  # CPU time over wall time of each loop
    use: Use | None = None  # of the device, where one loop was alone on it
    words: str = ""  # what the loop that found no memory said


class Shared(NamedTuple):
    """What loops have in common; once they train no lock: one put aside would stop the others."""

    barrier: Barrier
    ready_s: Any  # array of c_double, one a loop: when it came to the barrier
    steps: Any  # array of c_long, one a loop: steps since the warm-up
    timing: Timing
    uuid: str | None  # of the GPU to watch


class Ran(NamedTuple):
    """What a loop answers at its end, if not a MemoryError or the words of another error."""

    stamps_s: FloatArray  # (steps + 1,) monotonic: when all began, then the end of each step
    cpu_s: FloatArray  # (steps + 1,) CPU time of the process at each stamp
    lines: Sequence[str] = ()  # for `use_of`


def run_together(
    tasks: Sequence[LoopTask], timing: Timing, *, uuid: str | None, before_mib: float
) -> Together:
    """Start the loops together, let them run, and tell their speeds; all have ended then.

    A loop alone is also watched on the GPU of this `uuid`, where others held `before_mib` before.

    Raises:
        MeasureError: a loop died, or the group takes too long.
    """
    spawn, count = multiprocessing.get_context("spawn"), len(tasks)
    ready_s, steps = spawn.RawArray(c_double, count), spawn.RawArray(c_long, count)
    shared = Shared(spawn.Barrier(count), ready_s, steps, timing, uuid if count == 1 else None)
    loops: dict[Any, Any] = {}  # processes, named after their profiles, by the pipe of the answer
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
        ran = _answers(loops, timing["patience_s"] + timing["warmup_s"] + timing["measure_s"])
    except MemoryError as error:
        return Together(feasible=False, words=str(error))
    finally:
        for pipe, process in loops.items():
            process.terminate()
            process.join()
            pipe.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    found = common_speeds(ran, timing["warmup_s"])
    of_cores = min(found.busy[0] / max(len(tasks[0].cores), 1), 1.0)
    use = use_of(ran[0].lines, before_mib) if uuid else Use(of_cores)
    return found if count > 1 else replace(found, use=use)


def _answers(loops: Mapping[Any, Any], most_s: float) -> list[Ran]:
    last_s = time.monotonic() + most_s
    ran: dict[Any, Ran] = {}
    while silent := [pipe for pipe in loops if pipe not in ran]:
        ready = wait(silent, timeout=max(last_s - time.monotonic(), 0.0))
        if not ready:
            raise MeasureError(
                f"{' beside '.join(loop.name for loop in loops.values())}: not done in time; "
                "raise patience_s, or leave the slow one out of profiles"
            )
        for pipe in ready:
            others = " and ".join(loop.name for other, loop in loops.items() if other is not pipe)
            ran[pipe] = _answer(pipe, loops[pipe], f"beside {others}" if others else "alone")
    return [ran[pipe] for pipe in loops]


def _answer(pipe: Any, loop: Any, where: str) -> Ran:
    try:
        said = pipe.recv()
    except EOFError:
        loop.join()
        killed = f"killed by signal {-loop.exitcode} (9 is what a full memory of the machine sends)"
        said = killed if loop.exitcode < 0 else f"it left with status {loop.exitcode} and no word"
    if isinstance(said, MemoryError):
        raise MemoryError(f"{loop.name}: {said}")
    if isinstance(said, str):
        raise MeasureError(
            f"{loop.name} {where} died: {said}; mend it or leave it out of profiles. Finished "
            "groups are kept: the same command goes on with the others"
        )
    return said


def enter(task: LoopTask, number: int, pipe: Any, shared: Shared) -> None:
    """In a process of its own: train until every loop has enough, and answer what came of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        pipe.send(run_loop(task, number, shared))
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        pipe.send(MemoryError(words) if is_out_of_memory(error) else words)


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)  # a loop whose parent was killed would go on beside those of the next


def run_loop(task: LoopTask, number: int, shared: Shared) -> Ran:
    """Make the model, wait for the others, train until time is over and all have their steps."""
    if task.form == "cpu":  # libraries read the number of their threads when imported
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        make = pkgutil.resolve_name(task.make)
    except (ImportError, AttributeError, ValueError) as error:
        raise MeasureError(f"makers: {task.make!r} cannot be imported ({error})") from error
    from interference.measuring.training_loops import prepared

    if task.cores:  # not before the imports, which would wait for each other on one core
        os.sched_setaffinity(0, task.cores)
    step = prepared(make, task.form, task.batch, task.seed)
    shared.ready_s[number] = time.monotonic()
    shared.barrier.wait()
    stamps_s, cpu_s = [max(shared.ready_s)], [time.process_time()]
    warm_s = stamps_s[0] + shared.timing["warmup_s"]
    end_s = warm_s + shared.timing["measure_s"]

    def train() -> None:
        stamps_s.append(step())
        cpu_s.append(time.process_time())

    while time.monotonic() < warm_s:
        train()
    with watching(shared.uuid) as lines:
        while time.monotonic() < end_s or min(shared.steps) < shared.timing["least_steps"]:
            train()
            shared.steps[number] += 1
    return Ran(np.array(stamps_s), np.array(cpu_s), lines)


def is_out_of_memory(error: Exception) -> bool:
    """PyTorch has a class for a full GPU, but a bare RuntimeError for host memory and libraries."""
    told = isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)
    return told or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def common_speeds(loops: Sequence[Ran], warmup_s: float) -> Together:
    """Speeds from `warmup_s` after the last loop began until the first loop ended.

    A step that is cut by the window's border counts by the part inside, so that slow loops are not
    rounded to whole steps.
    """
    window_s = (
        max(ran.stamps_s[0] for ran in loops) + warmup_s,
        min(ran.stamps_s[-1] for ran in loops),
    )
    length_s = float(np.diff(window_s)[0])

    def rate(ran: Ran, count: FloatArray) -> float:
        return float(np.diff(np.interp(window_s, ran.stamps_s, count))[0]) / length_s

    steps_per_s = tuple(rate(ran, np.arange(float(len(ran.stamps_s)))) for ran in loops)
    return Together(True, length_s, steps_per_s, tuple(rate(ran, ran.cpu_s) for ran in loops))
