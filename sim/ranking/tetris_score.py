"""Tetris' score of waiting jobs (`sim.schedulers.tetris`)."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel


@array_kernel
def tetris_score(
    gang: IntArray, left_s: FloatArray, free_share: float, largest: float
) -> FloatArray:
    """Alignment plus shortness, the highest first.

    Args:
        gang: (q,) GPUs of each job, q at least 1.
        left_s: (q,) predicted work left.
        free_share: largest share of free GPUs on one server.
        largest: GPUs of the largest server.

    Returns:
        (q,) scores.
    """
    alignment = np.minimum(gang.astype(np.float64), largest) / largest * free_share
    work_gpu_s = left_s * gang
    mean = work_gpu_s.mean()
    short = work_gpu_s / mean if mean > 0 else np.zeros_like(work_gpu_s)
    score: FloatArray = alignment - alignment.mean() * short
    return score
