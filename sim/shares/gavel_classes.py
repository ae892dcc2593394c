"""How fast Gavel takes each job to be on each type of GPU, and which jobs it may treat as one."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.shares.capacity import gang_gpus
from sim.shares.gavel_lp import Classes
from sim.view import ClusterView

DIGITS = 9  # speeds that agree to so many are equal


def relative_speeds(view: ClusterView, jobs: IntArray, gpus_of_type: IntArray) -> FloatArray:
    """(n, T + 1) work a second of each job, over that with an equal share of every type; 0: no.

    Way k < T is to run on GPUs of type k, way T on whatever types there are; that is for gangs
    which no single type can hold, and counts 1. An equal share is as large as the type is. Needs
    PROFILE and INTERFERENCE.

    Args:
        view: of the cluster.
        jobs: (n,) waiting or running.
        gpus_of_type: (T,) GPUs that are up, by `Topology.gpu_types`.
    """
    rows = [view.belief.type_index(name) for name in view.topology.gpu_types]
    pace = 1.0 / view.belief.catalogue.compute_s[view.jobs.profile[jobs]][:, rows]
    gpus = gang_gpus(view, jobs)
    accepted = _accepted(view, jobs, len(gpus_of_type)) & (gpus_of_type > 0)
    fits = accepted & (gpus[:, None] <= gpus_of_type)
    equal = (np.where(fits, pace, 0.0) * gpus_of_type).sum(axis=1) / max(1, gpus_of_type.sum())
    alone = np.where(fits, pace / np.where(equal > 0, equal, 1.0)[:, None], 0.0)
    mixes = ~fits.any(axis=1) & (gpus <= (accepted * gpus_of_type).sum(axis=1))
    return np.column_stack([alone, mixes.astype(np.float64)])


def classes_of(
    gpus: FloatArray, speed: FloatArray, gpus_of_type: IntArray
) -> tuple[Classes, IntArray]:
    """Classes of jobs with equal speeds that ask for equally many GPUs; (n,) class of each job.

    Args:
        gpus: (n,) that each job asks for.
        speed: (n, T + 1) as of `relative_speeds`.
        gpus_of_type: (T,) GPUs that are up.
    """
    like = np.column_stack([gpus, speed]).round(DIGITS).astype(np.float64)
    found, class_of, count = np.unique(like, axis=0, return_inverse=True, return_counts=True)
    everywhere = gpus_of_type / max(1, int(gpus_of_type.sum()))
    use = np.vstack([np.eye(len(gpus_of_type)), everywhere])
    return Classes(count.astype(np.int64), found[:, 0], found[:, 1:], use), class_of.ravel()


def _accepted(view: ClusterView, jobs: IntArray, types: int) -> BoolArray:
    """(n, T) whether a job takes GPUs of that type."""
    if view.jobs.demands is None:
        return np.ones((len(jobs), types), dtype=np.bool_)
    mask = view.jobs.demands.type_mask[jobs]
    accepted: BoolArray = (mask[:, None] >> np.arange(types)) & 1 == 1
    return accepted
