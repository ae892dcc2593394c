"""What two traces are compared by: samples of single jobs, gaps and hours, and curves."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.job_sample import HOUR_S, JobSample

HOURS_A_WEEK = 168
SIZE_CLASSES = {"1 GPU": (1, 1), "2-4 GPUs": (2, 4), "5-8 GPUs": (5, 8), "9+ GPUs": (9, 1 << 60)}
GAP = "gap between jobs (s)"
HOURLY = "jobs in an hour"
GANG = "gang size, by jobs"
GANG_BY_WORK = "gang size, by GPU-time"
DURATION = "duration (s)"
ALIKE_LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # jobs
COUNT_LAGS_H = (*range(1, 25), 36, 48, 72, 96, 120, 144, 168)
ALIKE_LN = 0.18  # durations within 20 % of each other


@dataclass(frozen=True)
class Sample:
    """Values with weights, and how they look on a logarithmic scale."""

    values: FloatArray  # (n,)
    weights: FloatArray  # (n,)
    offset: float  # distances are of ln(max(value, 1) + offset)

    def ln(self) -> FloatArray:
        """(n,) values on the logarithmic scale; below 1 counts as 1 where the offset is 0."""
        lifted = self.values if self.offset else np.maximum(self.values, 1.0)
        result: FloatArray = np.log(lifted + self.offset)
        return result

    def median(self) -> float:
        """The value below which half of the weight lies."""
        order = np.argsort(self.values, kind="stable")
        reached = np.cumsum(self.weights[order])
        return float(self.values[order][np.searchsorted(reached, reached[-1] / 2)])


def duration_of(size_class: str) -> str:
    """Name of the durations of one size class."""
    return f"duration, {size_class} (s)"


def samples(jobs: JobSample) -> dict[str, Sample]:
    """Feature -> sample; a size class without a job is left out."""
    size = jobs.num_gpus.astype(np.float64)
    found = {
        GAP: _plain(np.diff(jobs.submit_s)),
        HOURLY: _plain(hourly_counts(jobs), offset=1.0),
        GANG: _plain(size),
        GANG_BY_WORK: Sample(size, size * np.maximum(jobs.duration_s, 1.0), 0.0),
        DURATION: _plain(jobs.duration_s),
    }
    for name, (low, high) in SIZE_CLASSES.items():
        rows = (jobs.num_gpus >= low) & (jobs.num_gpus <= high)
        if rows.any():
            found[duration_of(name)] = _plain(jobs.duration_s[rows])
    return found


def hourly_counts(jobs: JobSample) -> FloatArray:
    """(H,) jobs submitted in each hour from the first job on."""
    hour = ((jobs.submit_s - jobs.submit_s[0]) // HOUR_S).astype(np.int64)
    return np.bincount(hour).astype(np.float64)


def week_shares(jobs: JobSample) -> FloatArray:
    """(168,) share of the jobs by hour of the week, from the trace's second 0 on."""
    hour = (jobs.submit_s // HOUR_S).astype(np.int64) % HOURS_A_WEEK
    return np.bincount(hour, minlength=HOURS_A_WEEK) / len(jobs)


def same_second_frac(jobs: JobSample) -> float:
    """Share of the jobs that arrive in the second of the job before."""
    return float(np.mean(np.diff(jobs.submit_s) == 0))


def alike_shares(jobs: JobSample, lags: tuple[int, ...] = ALIKE_LAGS) -> FloatArray:
    """(L,) share of jobs with the gang of the job `lag` before and a duration within 20 % of its.

    It shows jobs that are submitted again, in a trace that names neither users nor groups. NaN
    where the trace is shorter than the lag.
    """
    ln_s = np.log(np.maximum(jobs.duration_s, 1.0))
    shares = np.full(len(lags), np.nan)
    for place, lag in enumerate(lags):
        if lag < len(jobs):
            alike = jobs.num_gpus[lag:] == jobs.num_gpus[:-lag]
            alike &= np.abs(ln_s[lag:] - ln_s[:-lag]) < ALIKE_LN
            shares[place] = alike.mean()
    return shares


def count_correlations(jobs: JobSample, lags_h: tuple[int, ...] = COUNT_LAGS_H) -> FloatArray:
    """(L,) autocorrelation of ln(1 + jobs in an hour); NaN where the trace is too short.

    A lag needs twice its length of trace. A trace of constant counts has none (NaN).
    """
    counts = np.log1p(hourly_counts(jobs))
    centred = counts - counts.mean()
    spread = float(centred @ centred) / len(centred)
    result = np.full(len(lags_h), np.nan)
    for place, lag in enumerate(lags_h):
        if spread > 0 and 2 * lag <= len(counts):
            result[place] = float(np.mean(centred[lag:] * centred[:-lag])) / spread
    return result


def sizes_of(jobs: JobSample) -> IntArray:
    """(S,) the gang sizes that occur, ascending."""
    return np.unique(jobs.num_gpus)


def _plain(values: FloatArray, offset: float = 0.0) -> Sample:
    return Sample(values, np.ones(len(values)), offset)
