"""How much more work a profile does on more GPUs: as measured, and modelled beyond that."""

import numpy as np

from sim.arrays import FloatArray


def throughputs(steps_s: FloatArray, speedup: FloatArray | None) -> FloatArray:
    """(P, N + 1) throughput of n GPUs, most compact, over that of one; column 0 is 0.

    Where nobody measured, n GPUs do n steps' worth of samples in the modelled step; beyond a
    measured number that model goes on from the largest measured one below.

    Args:
        steps_s: (P, N + 1) step with n GPUs on the most compact placement.
        speedup: (P, .) measured throughput over that of one GPU, NaN where not; None: nothing is.
    """
    profiles, width = steps_s.shape
    numbers = np.arange(width)
    modelled: FloatArray = numbers * steps_s[:, 1:2] / steps_s
    if speedup is None:
        return modelled
    measured = np.full((profiles, width), np.nan)
    shown = min(width, speedup.shape[1])
    measured[:, 1:shown] = speedup[:, 1:shown]
    known = np.isfinite(measured)
    anchor = np.maximum.accumulate(np.where(known, numbers, 0), axis=1)
    row = np.arange(profiles)[:, None]
    onwards = measured[row, anchor] * (modelled / modelled[row, anchor.clip(1)])
    return np.where(known, measured, np.where(anchor > 0, onwards, modelled))
