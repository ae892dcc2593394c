"""The prior of estimators that learn: what is predicted before any job has finished."""

import math

from sim.errors import TraceError


def checked_prior_s(prior_s: float) -> float:
    """`prior_s` as a float.

    Raises:
        TraceError: it is not a finite number above 0.
    """
    if not (math.isfinite(prior_s) and prior_s > 0):
        raise TraceError(f"estimator.prior_s is {prior_s}; it must be a finite number above 0")
    return float(prior_s)
