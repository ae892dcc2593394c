"""Gang sizes worth a parameter, and their shares."""

import numpy as np

from sim.arrays import FloatArray, IntArray

LEAST_JOB_SHARE = 0.002
LEAST_WORK_SHARE = 0.01


def fit_gangs(num_gpus: IntArray, duration_s: FloatArray) -> tuple[IntArray, FloatArray]:
    """Sizes and shares of the jobs; a rare size counts for the nearest common one.

    A size is common if it has 0.2 % of the jobs or 1 % of the GPU-time.
    """
    sizes, place = np.unique(num_gpus, return_inverse=True)
    jobs = np.bincount(place) / len(num_gpus)
    work = np.bincount(place, num_gpus * np.maximum(duration_s, 1.0))
    common = (jobs >= LEAST_JOB_SHARE) | (work / work.sum() >= LEAST_WORK_SHARE)
    kept = sizes[common]
    gap = np.abs(np.log(sizes)[:, None] - np.log(kept)[None, :])
    nearest: IntArray = gap.argmin(axis=1)
    shares = np.bincount(nearest, weights=jobs, minlength=len(kept)).astype(np.float64)
    return kept.astype(np.int64), shares
