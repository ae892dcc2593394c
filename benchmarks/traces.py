"""Traces of the benchmarks: synthetic ones as other simulators were timed on."""

from pathlib import Path

import numpy as np

SIZES, SHARES = (1, 2, 4, 8, 16, 32), (0.70, 0.10, 0.08, 0.08, 0.03, 0.01)
MEDIAN_S, SIGMA, SHORTEST_S, LONGEST_S = 800.0, 1.8, 30.0, 72 * 3600.0


def synthetic(jobs: int, gpus: int, load: float, seed: int) -> tuple[np.ndarray, ...]:
    """Submission, gang and duration of Philly-like jobs: log-normal, Poisson, at `load`."""
    rng = np.random.default_rng(seed)
    duration_s = np.exp(np.log(MEDIAN_S) + SIGMA * rng.standard_normal(jobs))
    duration_s = np.floor(np.clip(duration_s, SHORTEST_S, LONGEST_S))
    num_gpus = rng.choice(SIZES, size=jobs, p=SHARES)
    gap_s = float(np.dot(num_gpus, duration_s)) / jobs / (load * gpus)
    submit_s = np.floor(np.cumsum(rng.exponential(gap_s, jobs)))
    return submit_s - submit_s[0], num_gpus, duration_s


def write_csv(path: Path, columns: tuple[np.ndarray, ...]) -> None:
    """As `workload=csv` reads it."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"{job},{s:g},{g},{d:g}" for job, (s, g, d) in enumerate(rows)]
    header = "job_id,submit_s,num_gpus,duration_s"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
