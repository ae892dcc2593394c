"""Keys of jobs: the least runs first, ties go to the lower row. Formulas as in `sim.schedulers`."""

import numpy as np

from sim.compiled.plan import LAS, SJF, SMALLEST_GANG, SRTF
from sim.jit import kernel
from sim.kernel.layout import RowArray

LAS_ROUNDING = 1e-9  # of a quantum, as sim.schedulers.las.ROUNDING


@kernel
def steps_of(attained_gpu_s: float, quantum_gpu_s: float) -> float:
    """Whole quanta attained."""
    return float(np.floor(attained_gpu_s / quantum_gpu_s + LAS_ROUNDING))


@kernel
def attained_gpu_s(jobs: RowArray, job: int, now_s: float) -> float:
    """Service of a running job up to now, as the kernel's `observe` writes it."""
    row = jobs[job]
    return float(row.served_gpu_s + max(0.0, now_s - row.resume_s) * row.held)


@kernel
def waiting_key(jobs: RowArray, job: int, game: RowArray, estimate_s: float) -> float:
    """Key of a waiting job; it does not change while the job waits."""
    order, row = game[0].order, jobs[job]
    if order == SRTF:
        return float(row.work_s - row.seen_progress_s)
    if order == LAS:
        return steps_of(row.attained_gpu_s, game[0].quantum_gpu_s)
    if order == SJF:
        return float(max(estimate_s - row.seen_progress_s, 0.0))
    return float(row.num_gpus) if order == SMALLEST_GANG else 0.0


@kernel
def left_s(jobs: RowArray, job: int, now_s: float) -> float:
    """Work left of a running job now."""
    row = jobs[job]
    return float(row.work_s - (row.progress_s + row.rate * max(0.0, now_s - row.rated_s)))
