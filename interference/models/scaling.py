"""Speeds in units of their GPU type, so that one model serves types of unlike spread."""

import numpy as np

from sim.arrays import FloatArray, IntArray

LEAST_ROWS = 8  # of a type, to have its own mean and spread


class TypeScale:
    """Mean and standard deviation of each fitted GPU type; those of all rows for another."""

    def __init__(self, gpu_type: IntArray, speed: FloatArray, types: int) -> None:
        """Take both from the fitted rows."""
        self._mean = np.full(types + 1, speed.mean())  # the last one is for unknown types
        self._sd = np.full(types + 1, max(float(speed.std()), 1e-3))
        for kind in range(types):
            here = speed[gpu_type == kind]
            if len(here) >= LEAST_ROWS and here.std() > 0:
                self._mean[kind], self._sd[kind] = here.mean(), here.std()

    def scaled(self, gpu_type: IntArray, speed: FloatArray) -> FloatArray:
        """(N,) speeds with mean 0 and spread 1 on each type."""
        return np.asarray((speed - self._mean[gpu_type]) / self._sd[gpu_type])

    def speed(self, gpu_type: IntArray, scaled: FloatArray) -> FloatArray:
        """(N,) back again."""
        return np.asarray(scaled * self._sd[gpu_type] + self._mean[gpu_type])

    def spread(self, gpu_type: IntArray, scaled: FloatArray) -> FloatArray:
        """(N,) standard deviations back again."""
        return np.asarray(scaled * self._sd[gpu_type])
