"""The true duration blurred by log-normal noise: a stand-in for a predictor of known quality."""

import math

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.traces.trace import Trace


class NoisyEstimator:
    """Predicts duration * exp(N(0, sigma)), independently for each job.

    A job of 0 seconds is predicted as 0 seconds.
    """

    information = "predicted"

    def __init__(self, *, sigma: float) -> None:
        """Take `sigma`, the standard deviation of the error in ln seconds (0 or more).

        Raises:
            TraceError: if sigma is negative or not finite.
        """
        if not (math.isfinite(sigma) and sigma >= 0):
            raise TraceError(f"estimator.sigma is {sigma}; it must be a finite number, 0 or more")
        self._sigma = float(sigma)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds; the noise of job j does not depend on its duration."""
        return trace.duration_s * np.exp(self._sigma * rng.standard_normal(len(trace)))
