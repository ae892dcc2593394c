"""How much of a GPU one loop uses when it is alone, as nvidia-smi tells it."""

import math
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

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
