"""Step time by placement with two kinds of unknowns: compute time by batch, and bytes.

step = compute[batch] + latency[placement] + bytes x seconds_per_byte[placement], where latency and
seconds a byte come from a network model. The unknowns of one application on one GPU type minimise
the squared relative error; bytes and compute are not negative. With one number of bytes, the
compute times can be eliminated and the solution written down (Frisch and Waugh 1933).
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray

LEAST_COMPUTE_FRAC = 0.01  # of the shortest step seen: compute is never nothing


@dataclass(frozen=True)
class StepFit:
    """Fitted unknowns of one application on one GPU type."""

    compute_s: FloatArray  # (B,) by batch; NaN for a batch without a row to fit
    num_bytes: float

    def predict(self, batch: IntArray, latency_s: FloatArray, s_per_byte: FloatArray) -> FloatArray:
        """(N,) seconds a step; NaN where the batch was not fitted."""
        return np.asarray(self.compute_s[batch] + latency_s + self.num_bytes * s_per_byte)


def fit_steps(
    *,
    batch: IntArray,
    step_s: FloatArray,
    latency_s: FloatArray,
    s_per_byte: FloatArray,
    used: BoolArray,
) -> StepFit:
    """Fit on the rows `used`.

    Args:
        batch: (N,) 0 .. B - 1.
        step_s: (N,) measured, above 0.
        latency_s: (N,) of the row's placement.
        s_per_byte: (N,) of the row's placement; all 0 for a model without a network.
        used: (N,)
    """
    batches = int(batch.max()) + 1
    b, weight = batch[used], 1.0 / step_s[used] ** 2
    rest, slope = step_s[used] - latency_s[used], s_per_byte[used]
    total = np.bincount(b, weights=weight, minlength=batches)

    def mean(values: FloatArray) -> FloatArray:
        summed = np.bincount(b, weights=weight * values, minlength=batches)
        with np.errstate(invalid="ignore"):
            return np.asarray(summed / total)

    lean_slope, lean_rest = slope - mean(slope)[b], rest - mean(rest)[b]
    spread = float(np.sum(weight * lean_slope**2))
    found = float(np.sum(weight * lean_slope * lean_rest)) / spread if spread > 0.0 else 0.0
    num_bytes = max(0.0, found)
    least_s = LEAST_COMPUTE_FRAC * float(step_s[used].min())
    compute_s = np.maximum(mean(rest - num_bytes * slope), least_s)
    return StepFit(compute_s=compute_s, num_bytes=num_bytes)


@dataclass(frozen=True)
class StepErrors:
    """How far predictions are from measurements."""

    rows: int
    mape_frac: float  # mean of |predicted / measured - 1|
    bias_frac: float  # mean of predicted / measured - 1
    r2_log: float  # of ln(step)
    r2_slowdown: float  # of ln(step / step on the smallest placement at this batch)


def step_errors(
    *, measured_s: FloatArray, predicted_s: FloatArray, alone_s: FloatArray
) -> StepErrors:
    """Errors over N rows; `alone_s` is each's step on the smallest placement, NaN if unknown."""
    ratio = predicted_s / measured_s - 1.0
    known = np.isfinite(alone_s)
    slowdown = np.log(measured_s[known] / alone_s[known])
    return StepErrors(
        rows=len(ratio),
        mape_frac=float(np.abs(ratio).mean()),
        bias_frac=float(ratio.mean()),
        r2_log=_r2(np.log(measured_s), np.log(predicted_s)),
        r2_slowdown=_r2(slowdown, np.log(predicted_s[known] / alone_s[known])),
    )


def _r2(truth: FloatArray, guess: FloatArray) -> float:
    """1 - squared error / variance; NaN where there is nothing to explain."""
    if len(truth) == 0 or float(np.var(truth)) == 0.0:
        return float("nan")
    return float(1.0 - np.mean((truth - guess) ** 2) / np.var(truth))
