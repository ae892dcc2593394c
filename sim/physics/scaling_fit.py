"""Scaling curves of measured profiles: throughput by number of GPUs, on as few servers as can be.

Speeds of Gavel's file are of all GPUs together. K80 and P100 count, by their geometric mean; the
V100 figures mix machines and are left out. A profile that was measured with 1, 2, 4 and 8 GPUs
gets the numbers between by a straight line in the logarithms of both; nothing is more than linear.
"""

import numpy as np

from sim.arrays import FloatArray
from sim.physics.gavel_files import IsolatedSpeed

SCALING_TYPES = ("k80", "p100")
MOST_GPUS = 8


def measured_speedup(speeds: list[IsolatedSpeed], names: tuple[str, ...]) -> FloatArray:
    """(P, 9) throughput of n GPUs over that of one; NaN where nothing larger was measured."""
    found = {
        (s.profile, s.gpu_type, s.num_gpus): s.steps_per_s
        for s in speeds
        if s.consolidated and s.steps_per_s > 0
    }
    speedup = np.full((len(names), MOST_GPUS + 1), np.nan)
    for row, name in enumerate(names):
        points = _points(found, name)
        numbers = np.arange(1, max(points) + 1)
        known = sorted(points)
        curve = np.interp(np.log(numbers), np.log(known), [points[n] for n in known])
        speedup[row, 1 : len(numbers) + 1] = np.minimum(np.exp(curve), numbers)
    return speedup


def _points(found: dict[tuple[str, str, int], float], name: str) -> dict[int, float]:
    """Logarithm of the measured speed-up by number of GPUs; 0 for one."""
    points = {1: 0.0}
    for number in range(2, MOST_GPUS + 1):
        logs = [
            np.log(found[name, kind, number] / found[name, kind, 1])
            for kind in SCALING_TYPES
            if (name, kind, number) in found and (name, kind, 1) in found
        ]
        if logs:
            points[number] = float(np.mean(logs))
    return points
