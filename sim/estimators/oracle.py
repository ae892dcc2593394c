"""The true duration: an upper bound on what any predictor can give."""

import numpy as np

from sim.arrays import FloatArray
from sim.traces.trace import Trace


class OracleEstimator:
    """Knows every duration."""

    information = "oracle"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """(J,) the durations themselves, in seconds, as a copy."""
        return trace.duration_s.copy()
