"""The device that all loops share: which it is, how it is shared, how much of it a loop uses."""

import multiprocessing
import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.errors import GpuYardError


class MeasureError(GpuYardError):
    """A measurement cannot be made; the message names the loop, what it said, and a way out."""


Form = Literal["cuda", "cpu"]  # sizes for a GPU, or small ones for a CPU core
QUERY = "--query-gpu=utilization.gpu,utilization.memory,memory.used"
SMI = ("nvidia-smi", QUERY, "--format=csv,noheader,nounits")
EVERY_MS = 200


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
    if wanted not in ("auto", "cuda", "cpu"):
        raise MeasureError(f"device is {wanted!r}; it must be auto, cuda or cpu")
    found = None if wanted == "cpu" else _asked_elsewhere()
    if found is not None:
        name, uuid = found
        return Device("cuda", name, "mps" if mps_runs() else "time_slicing", (), uuid)
    if wanted == "cuda":
        raise MeasureError(
            "device is 'cuda', but torch.cuda.is_available() is false here; use device=cpu, or a "
            "build of PyTorch and a driver for the GPU"
        )
    name = f"cpu_{cores}_core" + ("s" if cores > 1 else "")
    if not hasattr(os, "sched_setaffinity"):
        return Device("cpu", name, "unpinned", (), None)
    usable = sorted(os.sched_getaffinity(0))
    if cores > len(usable):
        raise MeasureError(f"cpu.cores is {cores}, but this process may use {len(usable)} only")
    # The last ones: the first tend to be busier.
    return Device("cpu", name, "cpu_cores", tuple(usable[-cores:]), None)


def _asked_elsewhere() -> tuple[str, str] | None:
    """Asked in a process that ends: whoever holds the GPU takes memory from the loops."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(cuda_name_and_uuid).result()


def cuda_name_and_uuid() -> tuple[str, str] | None:
    """Of the first visible GPU, or None; leaves this process with a hold on the GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    return found.name, f"GPU-{found.uuid}"


def mps_runs() -> bool:
    """Whether the daemon of NVIDIA's Multi-Process Service answers."""
    return _output(["nvidia-cuda-mps-control"], "get_server_list\n") is not None


def _output(command: Sequence[str], question: str = "") -> str | None:
    """What a program says; None where it is not there, fails, or takes more than a minute."""
    try:
        done = subprocess.run(
            command, input=question, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


@dataclass(frozen=True)
class Use:
    """Mean shares of the time in which kernels ran or memory was read, and the most memory held."""

    gpu_util: float  # 0..1, of its cores where a loop runs on the CPU; NaN where unknown
    gmem_util: float  # 0..1; NaN where unknown
    gmem_mib: float  # NaN where unknown


@contextmanager
def watching(uuid: str | None) -> Iterator[list[str]]:
    """Lines for `use_of`, there once the block is over; none without nvidia-smi or a GPU."""
    lines: list[str] = []
    sampler = None
    if uuid is not None:
        command = [*SMI, f"--id={uuid}", f"--loop-ms={EVERY_MS}"]
        with suppress(OSError):
            sampler = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
    try:
        yield lines
    finally:
        if sampler is not None:
            sampler.terminate()
            lines += sampler.communicate()[0].splitlines()


def memory_held_mib(uuid: str) -> float:
    """Memory that anybody holds on the GPU now; NaN where nvidia-smi does not tell."""
    return use_of((_output((*SMI, f"--id={uuid}")) or "").splitlines(), 0.0).gmem_mib


def use_of(lines: Sequence[str], before_mib: float) -> Use:
    """The summary of lines "percent, percent, MiB"; a column that is no number is unknown.

    Of the loop alone: memory that others held before is taken off.
    """
    # The last line may be cut where the sampler was ended.
    whole = [line for line in lines if line.count(",") == QUERY.count(",")]
    gpu, memory, held_mib = np.genfromtxt(whole or [",,"], delimiter=",", ndmin=2).T
    most_mib = max(float(held_mib.max()) - before_mib, 0.0)
    return Use(float(gpu.mean()) / 100.0, float(memory.mean()) / 100.0, most_mib)
