"""The floor every model must beat: the mean normalised speed of the GPU type."""

import numpy as np

from interference.dataset import ColocationRows
from interference.model import LEAST_NORM
from sim.arrays import FloatArray


class ConstantModel:
    """One number a GPU type; a type without rows gets the mean of all."""

    name = "constant"

    def fit(self, rows: ColocationRows) -> None:
        """Take means of feasible rows."""
        count = np.bincount(rows.gpu_type, minlength=len(rows.gpu_types))
        total = np.bincount(rows.gpu_type, rows.norm_speed, minlength=len(rows.gpu_types))
        self._mean = np.where(count > 0, total / np.maximum(count, 1), rows.norm_speed.mean())

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) the mean of each row's GPU type."""
        return np.asarray(np.maximum(self._mean[rows.gpu_type], LEAST_NORM))
