"""A trace as read, before a cluster or a policy is chosen, and the role of its reader.

Jobs that form workflows stay whole in stretches of it, and have no cycles.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.jobs import Attempts, Precedence
from sim.traces.text_table import GivenColumns


@dataclass(frozen=True)
class Trace:
    """J jobs sorted by submission (stable). A column that is None is not in the file."""

    name: str
    job_id: TextArray  # (J,) str
    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,) >= 1
    duration_s: FloatArray  # (J,) >= 0
    user: TextArray  # (J,) str, "" where unknown
    vc: TextArray  # (J,) virtual cluster, "" where unknown
    group: TextArray | None = None  # (J,) jobs of one group repeat each other; "" where unknown
    model: TextArray | None = None  # (J,) what the job trains, in the file's words; "" if unknown
    priority: IntArray | None = None  # (J,) larger is more important
    deadline_s: FloatArray | None = None  # (J,) seconds after submission; inf where there is none
    cpu_milli: IntArray | None = None  # (J,) of each worker (one GPU of the gang), as is memory
    memory_mib: IntArray | None = None  # (J,)
    gpu_milli: IntArray | None = None  # (J,) thousandths of a GPU that each worker takes
    gpu_types: TextArray | None = None  # (J,) allowed GPU types, "P100|T4"; "" any
    least_gpus: IntArray | None = None  # (J,) elastic jobs: 1 <= least_gpus <= num_gpus
    most_gpus: IntArray | None = None  # (J,) >= num_gpus
    outcome: IntArray | None = None  # (J,) COMPLETED, FAILED or CANCELLED of sim.jobs
    withdraw_s: FloatArray | None = None  # (J,) given up so long after submission; inf: never
    limit_s: FloatArray | None = None  # (J,) run time that its user asked for; inf: without a limit
    waited_s: FloatArray | None = None  # (J,) from submission to start as it was; NaN: never began
    line: IntArray | None = None  # (J,) of the file, for messages
    file: str | None = None  # that was read, for messages
    gang_from: str = ""  # what of the file tells `num_gpus`, for messages: "column 'gpus'"
    attempts: Attempts | None = None  # where in its work a job failed and started again
    precedence: Precedence | None = None  # rows of this trace that a job waits for

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)


def starts(lengths: IntArray | Sequence[int]) -> IntArray:
    """(J + 1,) where each of J lists of these lengths begins, and the end of the last."""
    first = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=first[1:])
    return first


def owners(first: IntArray) -> IntArray:
    """(sum,) the list that each entry belongs to."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def picked(first: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The lists at `rows`, in that order: where they begin, and which entries they hold."""
    lengths = np.diff(first)[rows]
    begin = starts(lengths)
    entries = np.arange(begin[-1]) + np.repeat(first[rows] - begin[:-1], lengths)
    return begin, entries


@dataclass(frozen=True)
class Notes:
    """What a reader did to the rows of a file."""

    rows: int  # data rows (or objects) in the file
    skipped: int  # bad rows left out (strict=false only)
    unsorted: int  # rows that stood after a row of later submission
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> good rows that are no job


class TraceReader(Protocol):
    """Reads one kind of file."""

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file, sorted by submission, and what was done to its rows.

        Args:
            path: the file.
            columns: the reader's names of columns to the file's.
            name: name of the trace in reports.
            strict: whether a bad row is an error; if not, it is left out, counted and logged.

        Raises:
            TraceError: naming file, line, column, value and fix.
        """


def units_of(precedence: Precedence | None, jobs: int) -> IntArray:
    """(J,) which unit each job is part of: a workflow, or itself; numbered by their first job."""
    rows = np.arange(jobs)
    if precedence is None:
        return rows
    alone = precedence.workflow < 0
    key = np.where(alone, rows + jobs, precedence.workflow)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[unit]


def thinned_units(unit: IntArray, num_jobs: int, thin: int, rng: np.random.Generator) -> IntArray:
    """Rows of whole units out of a random stretch of at least thin * num_jobs jobs.

    Units of the stretch are drawn at random until they hold `num_jobs` jobs; the last one drawn
    may bring a few more.
    """
    size = np.bincount(unit)
    ends = np.cumsum(size)
    wanted = min(thin * num_jobs, int(ends[-1]))
    last_start = int(np.searchsorted(ends, ends[-1] - wanted, side="right"))
    first = int(rng.integers(last_start + 1))
    done = ends[first] - size[first]
    stop = int(np.searchsorted(ends, done + wanted, side="left")) + 1
    order = first + rng.permutation(stop - first)
    drawn = order[: int(np.searchsorted(np.cumsum(size[order]), num_jobs, side="left")) + 1]
    return np.flatnonzero(np.isin(unit, drawn))


def on_a_cycle(first: IntArray, parents: IntArray) -> BoolArray:
    """(J,) jobs on a circle of parents, or that wait for one (Kahn 1962: what no order reaches)."""
    jobs = len(first) - 1
    child_of = owners(first)
    order = np.argsort(parents, kind="stable")
    begin = np.searchsorted(parents[order], np.arange(jobs + 1))
    waiting = np.diff(first).copy()
    ready = deque(np.flatnonzero(waiting == 0).tolist())
    while ready:
        row = ready.popleft()
        for child in child_of[order[begin[row] : begin[row + 1]]].tolist():
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    stuck: BoolArray = waiting > 0
    return stuck
