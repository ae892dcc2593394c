"""Service told apart in whole quanta, for many jobs at once."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel

ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


@array_kernel
def quanta_of(attained_gpu_s: float, quantum_gpu_s: float) -> float:
    """Whole quanta of service."""
    return float(np.floor(attained_gpu_s / quantum_gpu_s + ROUNDING))


@array_kernel
def indexed_keys(
    jobs: IntArray, attained_gpu_s: FloatArray, quantum_gpu_s: float, index: FloatArray
) -> FloatArray:
    """(n,) minus the index of each job's whole quanta; these themselves where it has none."""
    keys = np.empty(len(jobs))
    for at, job in enumerate(jobs):
        keys[at] = quanta_of(attained_gpu_s[job], quantum_gpu_s)
        if keys[at] < len(index):
            keys[at] = -index[int(keys[at])]
    return keys


@array_kernel
def least_wait_s(
    jobs: IntArray,
    attained_gpu_s: FloatArray,  # (J,)
    gang: IntArray,  # (J,)
    resume_s: FloatArray,  # (J,) restarts until then are no service
    now_s: float,
    quantum_gpu_s: float,
) -> float:
    """Time until the first of `jobs`, which run from now on, has one more quantum."""
    least_s = np.inf
    for job in jobs:
        next_gpu_s = (quanta_of(attained_gpu_s[job], quantum_gpu_s) + 1.0) * quantum_gpu_s
        wait_s = (next_gpu_s - attained_gpu_s[job]) / gang[job]
        wait_s += max(resume_s[job] - now_s, 0.0)
        least_s = min(least_s, wait_s)
    return least_s


@array_kernel
def quanta_of_leavers(
    before: IntArray, ran: BoolArray, seen_gpu_s: FloatArray, here: IntArray,
    marked: BoolArray, quantum_gpu_s: float,
) -> FloatArray:  # fmt: skip
    """Quanta, the last begun one included, of those of `before` who `ran` and are not `here`.

    `marked` (J,) is scratch, all False.
    """
    marked[here] = True
    quanta, gone = np.empty(len(before)), 0
    for at, job in enumerate(before):
        if ran[at] and not marked[job]:
            quanta[gone] = quanta_of(seen_gpu_s[at], quantum_gpu_s) + 1.0
            gone += 1
    marked[here] = False
    return quanta[:gone]
