"""No prediction at all: for schedulers that must live without durations."""

import numpy as np

from sim.arrays import FloatArray
from sim.traces.trace import Trace


class NoEstimator:
    """Predicts nothing."""

    information = "none"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) NaN for every job."""
        return np.full(len(trace), np.nan)
