"""Linear in the solo step times of both sides, as simple interference predictors are.

Least-interference-first schedulers are usually given such a predictor (a regression of the
slow-down on what each job does alone). Here the inputs are ln solo step times and the ratios of
solo times between GPU types, since those are known before two jobs ever meet; utilisation
counters, which the literature adds, are not in the data.
"""

import numpy as np

from interference.dataset import ColocationRows
from interference.features import log_solo
from interference.model import LEAST_NORM
from sim.arrays import FloatArray, IntArray


class LinearModel:
    """One least-squares plane a GPU type; knows no names."""

    name = "linear"

    def fit(self, rows: ColocationRows) -> None:
        """Least squares on feasible rows, GPU type by GPU type; a type without rows is flat."""
        inputs = _inputs(rows)
        self._weights = np.zeros((len(rows.gpu_types), inputs.shape[1]))
        self._weights[:, 0] = rows.norm_speed.mean()
        for gpu_type in np.unique(rows.gpu_type):
            here = rows.gpu_type == gpu_type
            self._weights[gpu_type], *_ = np.linalg.lstsq(
                inputs[here], rows.norm_speed[here], rcond=None
            )

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) value of the plane."""
        norm = (_inputs(rows) * self._weights[rows.gpu_type]).sum(axis=1)
        return np.asarray(np.maximum(norm, LEAST_NORM))


def _inputs(rows: ColocationRows) -> FloatArray:
    """(N, 1 + 2 (1 + T)): 1, then for each side ln solo time here and relative to each type."""
    columns = [np.ones((len(rows), 1))]
    for role in (rows.victim, rows.aggressor):
        columns += [log_solo(rows, role)[:, None], _relative(rows, role)]
    return np.hstack(columns)


def _relative(rows: ColocationRows, role: IntArray) -> FloatArray:
    """(N, T) ln of solo time here over solo time on each type; 0 where unknown."""
    return np.nan_to_num(log_solo(rows, role)[:, None] - np.log(rows.solo_s)[role])
