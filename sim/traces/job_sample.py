"""The three columns that every comparison of traces reads."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import TraceError

LEAST_JOBS = 40  # two halves of less say nothing about a distribution
HOUR_S = 3600.0


class Jobs(Protocol):
    """What a trace and a job table have in common."""

    @property
    def submit_s(self) -> FloatArray:
        """(J,) ascending."""

    @property
    def num_gpus(self) -> IntArray:
        """(J,) gang sizes."""

    @property
    def duration_s(self) -> FloatArray:
        """(J,) run times."""


@dataclass(frozen=True)
class JobSample:
    """J jobs sorted by submission."""

    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,)
    duration_s: FloatArray  # (J,)

    @classmethod
    def of(cls, jobs: Jobs, name: str) -> Self:
        """The columns of a trace or a job table.

        Raises:
            TraceError: if there are too few jobs, or all in one second.
        """
        if len(jobs.submit_s) < LEAST_JOBS:
            raise TraceError(
                f"{name} has {len(jobs.submit_s)} jobs; a comparison needs {LEAST_JOBS} or more"
            )
        span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
        if not span_s > 0:
            raise TraceError(f"{name}: all jobs arrive in one second; use a longer stretch")
        return cls(jobs.submit_s, jobs.num_gpus, jobs.duration_s)

    def take(self, rows: IntArray | BoolArray) -> "JobSample":
        """The jobs at `rows`, in that order."""
        return JobSample(self.submit_s[rows], self.num_gpus[rows], self.duration_s[rows])

    def halves(self) -> tuple["JobSample", "JobSample"]:
        """The jobs of the first and of the second half of the time span.

        Where one half of the time holds nearly all jobs, the halves have equally many jobs.
        """
        middle_s = (self.submit_s[0] + self.submit_s[-1]) / 2
        early = int(np.searchsorted(self.submit_s, middle_s))
        if min(early, len(self) - early) < len(self) // 10:
            early = len(self) // 2
        rows = np.arange(len(self))
        return self.take(rows < early), self.take(rows >= early)

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.submit_s)
