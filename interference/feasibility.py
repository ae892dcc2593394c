"""Which pairs a model says do not fit into memory."""

import numpy as np

from interference.dataset import ColocationRows
from sim.arrays import BoolArray
from sim.physics.memory_rule import probably_infeasible


def predicted_infeasible(rows: ColocationRows, *, keep_observed: bool) -> BoolArray:
    """(T, P, P) symmetric.

    Args:
        rows: all rows, infeasible ones too.
        keep_observed: pairs that were tried keep what was seen; without it the memory rule
            speaks for every pair.
    """
    shape = (len(rows.gpu_types), len(rows.profiles), len(rows.profiles))
    tried, failed = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for left, right in ((rows.victim, rows.aggressor), (rows.aggressor, rows.victim)):
        tried[rows.gpu_type, left, right] = True
        failed[rows.gpu_type[~rows.feasible], left[~rows.feasible], right[~rows.feasible]] = True
    rule = np.stack([probably_infeasible(t, f) for t, f in zip(tried, failed, strict=True)])
    return np.where(tried, failed, rule) if keep_observed else rule
