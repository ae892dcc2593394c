"""Who was on a GPU when: stretches of time with the same tenants."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.metrics.attempts import attempts_of
from sim.run import Run


@dataclass(frozen=True)
class Tenancy:
    """N stretches during which one tenant of one GPU had the same fellow tenants."""

    job: IntArray  # (N,) row of the job table
    row: IntArray  # (N,) position of the GPU among those asked for
    start_s: FloatArray  # (N,)
    end_s: FloatArray  # (N,)
    place: IntArray  # (N,) 0 for the tenant that came first, and so on
    tenants: IntArray  # (N,) of the GPU in this stretch, `job` included


def tenancy_of(run: Run, gpus: IntArray, between_s: tuple[float, float] | None = None) -> Tenancy:
    """The stretches of the given GPUs, in order of GPUs, times, tenants.

    Args:
        run: the run.
        gpus: (n,) to look at.
        between_s: only attempts that are there at some time between; what they say of other times
            lacks the tenants of those. None: all attempts.
    """
    attempts = attempts_of(run)
    low_s, high_s = between_s or (-np.inf, np.inf)
    seen = (attempts.end_s >= low_s) & (attempts.start_s <= high_s)
    row_of_gpu = np.full(run.topology.num_gpus, -1)
    row_of_gpu[gpus] = np.arange(len(gpus))
    visits: list[list[tuple[float, float, int]]] = [[] for _ in range(len(gpus))]
    columns = (attempts.job, attempts.start_s, attempts.end_s, attempts.start_event)
    for job, start_s, end_s, event in zip(*(c[seen].tolist() for c in columns), strict=True):
        rows = row_of_gpu[run.log.gpus[event]]
        for row in rows[rows >= 0].tolist():
            visits[row].append((start_s, end_s, job))
    found = [
        (stretch[0], row, *stretch[1:])
        for row, visit in enumerate(visits)
        for stretch in _stretches(visit)
    ]
    job_, row_, start, end, place, tenants = zip(*found, strict=True) if found else ((),) * 6
    return Tenancy(
        job=np.array(job_, dtype=np.int64),
        row=np.array(row_, dtype=np.int64),
        start_s=np.array(start, dtype=np.float64),
        end_s=np.array(end, dtype=np.float64),
        place=np.array(place, dtype=np.int64),
        tenants=np.array(tenants, dtype=np.int64),
    )


def _stretches(
    visits: list[tuple[float, float, int]],
) -> list[tuple[int, float, float, int, int]]:
    """(job, start, end, place, tenants) of the visits (start, end, job) of one GPU, by starts."""
    found: list[tuple[int, float, float, int, int]] = []
    inside: list[tuple[float, int]] = []  # (end, job) in order of arrival
    since_s = 0.0

    def close(until_s: float) -> None:
        if until_s > since_s:
            for place, (_, job) in enumerate(inside):
                found.append((job, since_s, until_s, place, len(inside)))

    for start_s, end_s, job in [*visits, (np.inf, np.inf, -1)]:
        while inside and min(inside)[0] <= start_s:
            first_s = min(inside)[0]
            close(first_s)
            since_s = max(since_s, first_s)
            inside = [each for each in inside if each[0] > first_s]
        if inside:
            close(start_s)
        since_s = start_s
        inside.append((end_s, job))
    return found
