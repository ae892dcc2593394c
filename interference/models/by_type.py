"""Ridge planes, one a GPU type, and one of all types for a type without enough rows."""

import numpy as np
from sklearn.linear_model import Ridge

from interference.models.scaling import LEAST_ROWS
from sim.arrays import FloatArray, IntArray


class PlanesByType:
    """Least squares with a penalty on the weights, intercept free."""

    def __init__(self, penalty: float) -> None:
        """Set the weight of the squared weights."""
        self._penalty = penalty

    def fit(self, inputs: FloatArray, target: FloatArray, gpu_type: IntArray) -> None:
        """Fit; a GPU type needs LEAST_ROWS rows for a plane of its own."""
        self._all = self._plane(inputs, target)
        self._own = {
            int(kind): self._plane(inputs[here], target[here])
            for kind in np.unique(gpu_type)
            for here in [gpu_type == kind]
            if here.sum() >= LEAST_ROWS
        }

    def predict(self, inputs: FloatArray, gpu_type: IntArray) -> FloatArray:
        """(N,) value of each row's plane."""
        value = np.zeros(len(inputs))
        for kind in np.unique(gpu_type):
            here = gpu_type == kind
            value[here] = self._own.get(int(kind), self._all).predict(inputs[here])
        return value

    def _plane(self, inputs: FloatArray, target: FloatArray) -> Ridge:
        return Ridge(alpha=self._penalty).fit(inputs, target)
