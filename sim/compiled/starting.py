"""Carrying out a start that compiled code has decided; it is legal by construction."""

import numpy as np

from sim.compiled.layout import Memory
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.log import START, log_event
from sim.kernel.placing import occupy
from sim.kernel.queue import queue_remove


@kernel
def start(state: State, memory: Memory, job: int, at: int) -> None:
    """Start a waiting job on the GPUs in `memory.gpus` from `at` on, which are booked already."""
    row, gpus = state.job[job], memory.gpus
    gang, first = row.num_gpus, row.first
    renewal = row.left_s == state.world[0].now_s and row.held == gang
    for i in range(gang):
        renewal = renewal and state.placed[first + i] == gpus[at + i]
        state.placed[first + i] = gpus[at + i]
    queue_remove(state, job)
    occupy(state, job, gang, renewal, np.inf)
    log_event(state, START, job, gang)
