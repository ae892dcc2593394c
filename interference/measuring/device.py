"""The device that all loops share: a GPU, or cores of the CPU."""

import multiprocessing
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Literal

from interference.measuring.errors import MeasureError

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
