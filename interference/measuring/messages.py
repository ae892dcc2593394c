"""What a process that trains is given and what it answers: plain values, no torch.

One training loop, which stamps the end of every step.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
import torch

from interference.measuring.device import Form
from interference.measuring.work import Batch, MakeWork, Work
from sim.arrays import FloatArray


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


BATCHES = 8  # drawn beforehand and used in turn
FIRST_STEPS = 3  # before the barrier: the first ones allocate memory and choose kernels


def run_loop(task: LoopTask, make: MakeWork, signals: Signals, line: Line) -> Ran:
    """Make the model, wait for the others, train until `signals.stop`."""
    torch.manual_seed(task.seed)
    if task.form == "cpu":
        torch.set_num_threads(1)
    step = steps_of(make(task.form, task.batch), torch.device(task.form), task.seed)
    for _ in range(FIRST_STEPS):
        step()
    if task.form == "cuda":
        torch.cuda.synchronize()
    signals.barrier.wait()
    stamps_s, cpu_s = [time.monotonic()], [time.process_time()]
    line.pipe.send(Began(stamps_s[0]))
    finished = gpu_finished() if task.form == "cuda" else time.monotonic
    while not signals.stop.value:
        step()
        stamps_s.append(finished())
        cpu_s.append(time.process_time())
        signals.steps[line.number] += 1
    return Ran(np.array(stamps_s), np.array(cpu_s))


def steps_of(work: Work, device: torch.device, seed: int) -> Callable[[], None]:
    """One step of training a call: the next batch to the device, forward, backward, update."""
    model = work.model.to(device).train()
    optimizer = work.optimizer(model.parameters())
    batches = itertools.cycle(_batches(work, device, seed))

    def step() -> None:
        batch = tuple(part.to(device, non_blocking=True) for part in next(batches))
        optimizer.zero_grad(set_to_none=True)
        work.loss(model, batch).backward()
        optimizer.step()

    return step


def gpu_finished() -> Callable[[], float]:
    """A clock for the ends of steps on a GPU, which runs behind the program.

    Each call waits for the step before the last one only: waiting for the last one would leave the
    GPU idle while the program prepares the next, and to its neighbours more than they would get.
    """
    pending: list[torch.cuda.Event] = []

    def finished() -> float:
        event = torch.cuda.Event()
        event.record()
        pending.append(event)
        if len(pending) > 1:
            pending.pop(0).synchronize()
        return time.monotonic()

    return finished


def _batches(work: Work, device: torch.device, seed: int) -> list[Batch]:
    """In memory that the GPU can read directly, as data loaders do."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [work.batch(generator) for _ in range(BATCHES)]
    if device.type != "cuda":
        return drawn
    return [tuple(part.pin_memory() for part in batch) for batch in drawn]
