"""Summary figures of a trace: what a generator must reproduce."""

from dataclasses import dataclass

import numpy as np

from sim.traces.trace import Trace

HOUR_S = 3600.0
SIZE_EDGES = (1, 4, 8)  # classes 1, 2-4, 5-8, more


@dataclass(frozen=True)
class Shape:
    """Sizes, durations and arrivals of J jobs."""

    jobs: int
    jobs_per_h: float
    mean_gang: float
    size_shares: tuple[float, ...]  # share of jobs with 1, 2-4, 5-8, more GPUs
    work_shares: tuple[float, ...]  # share of GPU-seconds of the same classes
    duration_s: tuple[float, ...]  # p50, p90, p99, mean
    gap_cv: float  # coefficient of variation of inter-arrival times
    zero_gap_frac: float
    dispersion: float  # variance over mean of the hourly counts
    demand_gpus: float  # sum(gang * duration) / span


def shape(trace: Trace) -> Shape:
    """Summary figures of a trace of two jobs or more over more than an hour."""
    gaps_s = np.diff(trace.submit_s)
    span_s = float(gaps_s.sum())
    work_gpu_s = trace.num_gpus * trace.duration_s
    size = np.searchsorted(SIZE_EDGES, trace.num_gpus)
    classes = len(SIZE_EDGES) + 1
    hours = ((trace.submit_s - trace.submit_s[0]) // HOUR_S).astype(np.int64)
    counts = np.bincount(hours)
    return Shape(
        jobs=len(trace),
        jobs_per_h=len(trace) / span_s * HOUR_S,
        mean_gang=float(trace.num_gpus.mean()),
        size_shares=tuple(np.bincount(size, minlength=classes) / len(trace)),
        work_shares=tuple(np.bincount(size, work_gpu_s, classes) / work_gpu_s.sum()),
        duration_s=(
            *np.quantile(trace.duration_s, (0.5, 0.9, 0.99)).tolist(),
            float(trace.duration_s.mean()),
        ),
        gap_cv=float(gaps_s.std() / gaps_s.mean()),
        zero_gap_frac=float(np.mean(gaps_s == 0)),
        dispersion=float(counts.var() / counts.mean()),
        demand_gpus=float(work_gpu_s.sum()) / span_s,
    )
