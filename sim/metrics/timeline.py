"""A run's utilisation and queue in equal bins of time: small enough to store and to draw."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.over_time import queue_over_time, span_s, utilisation_over_time
from sim.metrics.steps import Steps
from sim.run import Run


@dataclass(frozen=True)
class Timeline:
    """Averages over B bins of equal length."""

    time_s: FloatArray  # (B,) start of each bin, from the first submission
    gpu_util_frac: FloatArray  # (B,)
    queue_jobs: FloatArray  # (B,)


def timeline_of(run: Run, *, bins: int) -> Timeline:
    """Average the time series of a run over `bins` bins from first submission to last event."""
    start_s, end_s = span_s(run)
    edges_s = np.linspace(start_s, end_s, bins + 1)
    return Timeline(
        time_s=edges_s[:-1] - start_s,
        gpu_util_frac=_bin_means(utilisation_over_time(run), edges_s),
        queue_jobs=_bin_means(queue_over_time(run), edges_s),
    )


def _bin_means(steps: Steps, edges_s: FloatArray) -> FloatArray:
    width_s = np.diff(edges_s)
    if width_s[0] <= 0:
        return np.zeros(len(width_s))
    return np.diff(steps.integral(edges_s)) / width_s
