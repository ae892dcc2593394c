"""The device that all loops share, what they are given and answer, what can go wrong."""

import math
import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, Literal

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError


class MeasureError(GpuYardError):
    """A measurement cannot be made; the message names the loop, what it said, and a way out."""


Form = Literal["cuda", "cpu"]  # sizes for a GPU, or small ones for a CPU core
WANTED = ("auto", "cuda", "cpu")
MPS_CONTROL = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class Device:
    """What is shared, and how."""

    form: Form
    gpu_type: str  # as in the rows
    how: str  # "time_slicing", "mps", "cpu_cores" or, where nothing can be pinned, "unpinned"
    cores: tuple[int, ...]  # that every loop is pinned to; empty: to none
    uuid: str | None  # of the GPU


def find_device(wanted: str, cores: int) -> Device:
    """The GPU if there is one or it is `wanted`, else `cores` cores of the CPU.

    Raises:
        MeasureError: an unknown wish, no GPU where one is wanted, or too few cores.
    """
    if wanted not in WANTED:
        raise MeasureError(f"device is {wanted!r}; it must be {', '.join(WANTED[:-1])} or cpu")
    found = None if wanted == "cpu" else _asked_elsewhere()
    if found is not None:
        name, uuid = found
        how = "mps" if mps_runs() else "time_slicing"
        return Device(form="cuda", gpu_type=name, how=how, cores=(), uuid=uuid)
    if wanted == "cuda":
        raise MeasureError(
            "device is 'cuda', but torch.cuda.is_available() is false here; use device=cpu, or a "
            "build of PyTorch and a driver for the GPU"
        )
    return _cpu(cores)


def mps_runs() -> bool:
    """Whether the daemon of NVIDIA's Multi-Process Service answers."""
    try:
        asked = subprocess.run(
            [MPS_CONTROL], input="get_server_list\n", capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def cuda_name_and_uuid() -> tuple[str, str] | None:
    """Of the first visible GPU, or None; leaves this process with a hold on the GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    return found.name, f"GPU-{found.uuid}"


def _asked_elsewhere() -> tuple[str, str] | None:
    """Asked in a process that ends: whoever holds the GPU takes memory from the loops."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(cuda_name_and_uuid).result()


def _cpu(cores: int) -> Device:
    """The last cores that this process may use: the first ones tend to be busier."""
    name = f"cpu_{cores}_core" + ("s" if cores > 1 else "")
    if not hasattr(os, "sched_setaffinity"):
        return Device(form="cpu", gpu_type=name, how="unpinned", cores=(), uuid=None)
    usable = sorted(os.sched_getaffinity(0))
    if cores > len(usable):
        raise MeasureError(f"cpu.cores is {cores}, but this process may use {len(usable)} only")
    return Device(
        form="cpu", gpu_type=name, how="cpu_cores", cores=tuple(usable[-cores:]), uuid=None
    )


QUERY = "--query-gpu=utilization.gpu,utilization.memory,memory.used"
PLAIN = "--format=csv,noheader,nounits"
EVERY_MS = 200


@dataclass(frozen=True)
class Use:
    """Mean shares of the time in which kernels ran or memory was read, and the most memory held."""

    gpu_util: float  # 0..1; NaN where unknown
    gmem_util: float  # 0..1; NaN where unknown
    gmem_mib: float  # NaN where unknown


UNKNOWN = Use(math.nan, math.nan, math.nan)


@dataclass
class Watch:
    """What is being sampled; `text` is there once the block of `watching` is over."""

    text: str = ""
    before_mib: float = field(default=0.0)

    def use(self) -> Use:
        """Of the loop alone: memory that others held before is taken off."""
        return use_of(self.text, self.before_mib)


def memory_held_mib(uuid: str) -> float:
    """Memory that anybody holds on the GPU now; NaN where nvidia-smi does not tell."""
    try:
        told = subprocess.run(
            ["nvidia-smi", QUERY, PLAIN, f"--id={uuid}"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return math.nan
    return use_of(told.stdout, 0.0).gmem_mib


@contextmanager
def watching(uuid: str | None, before_mib: float) -> Iterator[Watch]:
    """Sample the GPU during the block; nothing is known without nvidia-smi or a GPU."""
    watch = Watch(before_mib=before_mib)
    sampler = None if uuid is None else _sampler(uuid)
    try:
        yield watch
    finally:
        if sampler is not None:
            sampler.terminate()
            watch.text, _ = sampler.communicate()


def use_of(text: str, before_mib: float) -> Use:
    """The summary of lines "percent, percent, MiB"; a column that is no number is unknown."""
    # The last line may be cut where the sampler was ended.
    lines = [line.split(",") for line in text.splitlines() if line.count(",") == QUERY.count(",")]
    if not lines:
        return UNKNOWN
    gpu, memory, held_mib = np.array([[_number(cell) for cell in line] for line in lines]).T
    return Use(
        gpu_util=float(gpu.mean()) / 100.0,
        gmem_util=float(memory.mean()) / 100.0,
        gmem_mib=max(float(held_mib.max()) - before_mib, 0.0),
    )


def _sampler(uuid: str) -> "subprocess.Popen[str] | None":
    command = ["nvidia-smi", QUERY, PLAIN, f"--id={uuid}", f"--loop-ms={EVERY_MS}"]
    try:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


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
class Signals:
    """What the loops of one group share with the process that measures; none of it takes a lock.

    A lock would let a loop that was put aside while holding it stop all the others.
    """

    barrier: Barrier
    stop: Any  # c_bool: set when everything is measured
    steps: Any  # array of c_long, one a loop: steps done so far


@dataclass(frozen=True)
class Line:
    """Where a loop sits among the others, and its way to answer."""

    number: int
    pipe: "Connection[Any, Any]"


@dataclass(frozen=True)
class Began:
    """The loop passed the barrier."""

    at_s: float  # monotonic clock of the machine


@dataclass(frozen=True)
class Ran:
    """The loop was stopped; nothing failed."""

    stamps_s: FloatArray  # (steps + 1,) monotonic: when it began, then the end of each step
    cpu_s: FloatArray  # (steps + 1,) CPU time of the process at each stamp


@dataclass(frozen=True)
class Failed:
    """The loop could not go on."""

    out_of_memory: bool
    words: str
