"""The job table: what is known of every job before the run starts, as arrays.

What a job may ask for, belong to or undergo beyond its gang and its work is all optional.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, Rows, TextArray
from sim.errors import TraceError

WHOLE_GPU_MILLI = 1000
ANY_TYPE = -1  # every bit of `Demands.type_mask`
NEVER_S = np.inf

COMPLETED, FAILED, CANCELLED = 0, 1, 2  # values of Fates.outcome


@dataclass(frozen=True)
class Demands(Rows):
    """What each worker (one GPU's worth of the gang) needs where it is placed."""

    gpu_milli: IntArray  # (J,) thousandths of a GPU; 1000 is a whole one
    cpu_milli: IntArray  # (J,) thousandths of a core
    memory_mib: IntArray  # (J,)
    type_mask: IntArray  # (J,) bit t set: GPU type t of the topology will do; ANY_TYPE: all


class Ask(NamedTuple):
    """What each worker of one job needs."""

    gpu_milli: int
    cpu_milli: int
    memory_mib: int
    type_mask: int


WHOLE_GPU = Ask(WHOLE_GPU_MILLI, 0, 0, ANY_TYPE)


def ask_of(demands: Demands | None, job: int) -> Ask:
    """What a worker of `job` needs."""
    if demands is None:
        return WHOLE_GPU
    return Ask(
        int(demands.gpu_milli[job]),
        int(demands.cpu_milli[job]),
        int(demands.memory_mib[job]),
        int(demands.type_mask[job]),
    )


def gpus_of_workers(demands: Demands | None, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that one worker of each asks for: 1, or the part that it shares."""
    if demands is None:
        return np.ones(len(jobs))
    return demands.gpu_milli[jobs] / WHOLE_GPU_MILLI


@dataclass(frozen=True)
class Elastic(Rows):
    """Jobs that can run with another number of GPUs than their gang size."""

    least_gpus: IntArray  # (J,) 1 <= least_gpus <= num_gpus
    most_gpus: IntArray  # (J,) >= num_gpus


@dataclass(frozen=True)
class Identity(Rows):
    """Who submitted a job and what it repeats: small numbers, -1 where unknown."""

    user: IntArray  # (J,)
    group: IntArray  # (J,) jobs of one group are runs of the same thing (recurrence)
    vc: IntArray  # (J,) virtual cluster


@dataclass(frozen=True)
class Urgency(Rows):
    """How much a job matters, and by when."""

    priority: IntArray  # (J,) larger is more important; 0 where the trace has none
    deadline_s: FloatArray  # (J,) on the clock of submit_s; NEVER_S where there is none


@dataclass(frozen=True)
class Fates(Rows):
    """How a job ends, and what happens to it on the way, as in the trace."""

    outcome: IntArray  # (J,) COMPLETED, FAILED or CANCELLED once its work is done
    withdraw_s: FloatArray  # (J,) seconds after submission at which its user gives up; NEVER_S


@dataclass(frozen=True)
class Attempts:
    """Failures inside a job: points of its work at which an attempt fails and it queues again.

    Job j fails when its work done first reaches each of
    fail_at_s[first[j]:first[j + 1]]: ascending, above 0 and below its work. What it did up to
    there counts (the trace's durations hold all attempts together).
    """

    first: IntArray  # (J + 1,)
    fail_at_s: FloatArray  # (sum,)


@dataclass(frozen=True)
class Precedence:
    """Jobs of a DAG: job j waits for parents[first[j]:first[j + 1]], rows of the table.

    Parents are finished (COMPLETED) before a child is ready; a parent that ends otherwise takes
    its children with it, CANCELLED.
    """

    first: IntArray  # (J + 1,)
    parents: IntArray  # (sum,)
    workflow: IntArray  # (J,) number of the DAG a job is part of; -1: of none

    @property
    def children(self) -> IntArray:
        """(sum,) who waits for each of `parents`."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


def codes_of(names: TextArray) -> IntArray:
    """(J,) small numbers in order of first appearance, -1 for ""."""
    known: dict[str, int] = {"": -1}
    return np.array([known.setdefault(name, len(known) - 1) for name in names], dtype=np.int64)


COLUMNS = ("submit_s", "num_gpus", "duration_s", "estimate_s", "profile", "home", "measured")
TRAITS = ("demands", "elastic", "identity", "urgency", "fates")


@dataclass(frozen=True)
class JobTable:
    """J jobs sorted by submission (stable), ready to simulate.

    `duration_s` is the run time on the most compact exclusive placement: on the reference GPU type,
    where it is also the job's work, unless `speed` has it on another. 0 is legal.
    """

    job_id: TextArray  # (J,) str, as in the trace
    submit_s: FloatArray  # (J,) ascending
    num_gpus: IntArray  # (J,) gang size, >= 1
    duration_s: FloatArray  # (J,) >= 0
    estimate_s: FloatArray  # (J,) predicted duration_s; NaN where there is no prediction
    profile: IntArray  # (J,) row of the profile catalogue
    home: IntArray  # (J,) partition at which the job arrives
    measured: BoolArray  # (J,) True where metrics count the job (warm-up and drain are False)
    # None: no job of the table has any of it.
    demands: Demands | None = None
    elastic: Elastic | None = None
    identity: Identity | None = None
    urgency: Urgency | None = None
    fates: Fates | None = None
    attempts: Attempts | None = None
    precedence: Precedence | None = None
    speed: FloatArray | None = None  # (J,) work of a second of `duration_s`; None: 1

    def __post_init__(self) -> None:
        """Check shapes and ranges; a reader reports the line, this reports the job."""
        for name in (*COLUMNS, *TRAITS, "speed"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.job_id):
                raise TraceError(f"job table: column {name} has another length than job_id")
        if np.any(np.diff(self.submit_s) < 0):
            raise TraceError("job table: submit_s is not sorted; sort the rows by submission")
        gang, work_s = self.num_gpus, self.duration_s
        self._refuse("num_gpus", gang, gang < 1, "a gang needs at least one GPU")
        wrong = ~(np.isfinite(work_s) & (work_s >= 0))
        self._refuse("duration_s", work_s, wrong, "it must be 0 or more seconds")
        if self.speed is not None:
            self._refuse("speed", self.speed, ~(self.speed > 0), "it must be above 0")
        self._check_traits()

    def _check_traits(self) -> None:
        """Ranges of the optional columns."""
        if self.elastic is not None:
            least, most = self.elastic.least_gpus, self.elastic.most_gpus
            self._refuse("least_gpus", least, (least < 1) | (least > self.num_gpus),
                         "it must be from 1 to num_gpus")  # fmt: skip
            self._refuse("most_gpus", most, most < self.num_gpus, "it must be at least num_gpus")
        if self.demands is not None:
            for name, low in {"gpu_milli": 1, "cpu_milli": 0, "memory_mib": 0}.items():
                value = getattr(self.demands, name)
                self._refuse(name, value, value < low, f"it must be at least {low}")
            mask = self.demands.type_mask
            self._refuse("type_mask", mask, mask == 0, "no GPU type would do")
        if self.fates is not None:
            after_s = self.fates.withdraw_s
            self._refuse("withdraw_s", after_s, ~(after_s >= 0), "it must be 0 or more seconds")

    def _refuse(
        self, column: str, values: FloatArray | IntArray, bad: BoolArray, rule: str
    ) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(f"job {self.job_id[row]}: {column} is {values[row]}; {rule}")

    @property
    def gang_gpus(self) -> FloatArray:
        """(J,) GPUs that the whole gang of each asks for; parts of one count as parts."""
        return self.num_gpus * gpus_of_workers(self.demands, np.arange(len(self)))

    def as_work(self) -> "JobTable":
        """The jobs as they are played: durations, predictions, points of failure times `speed`."""
        if self.speed is None:
            return self
        attempts = self.attempts
        if attempts is not None:
            each = np.repeat(self.speed, np.diff(attempts.first))
            attempts = replace(attempts, fail_at_s=attempts.fail_at_s * each)
        return replace(
            self, duration_s=self.duration_s * self.speed, estimate_s=self.estimate_s * self.speed,
            attempts=attempts, speed=None,
        )  # fmt: skip

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)


def never_ran(duration_s: FloatArray, withdraw_s: FloatArray | None) -> BoolArray:
    """(J,) jobs without work whose users gave up: how long they would have run nobody knows."""
    after_s = np.full(len(duration_s), NEVER_S) if withdraw_s is None else withdraw_s
    found: BoolArray = (duration_s == 0.0) & np.isfinite(after_s)
    return found


def gang_of(workers: FloatArray, gpus_each: FloatArray) -> tuple[IntArray, IntArray]:
    """(J,) gangs, and thousandths of a GPU of each of their workers.

    A worker that asks for a part of a GPU is one of the gang; one that asks for more is as many, of
    whole GPUs, rounded up.
    """
    whole = np.maximum(np.ceil(gpus_each), 1.0)
    milli = np.floor(gpus_each * WHOLE_GPU_MILLI + 1e-6)  # 0.57 x 1000 is a little less than 570
    gang = np.clip(workers * whole, 1, 2**31).astype(np.int64)
    return gang, np.where(gpus_each < 1, np.maximum(milli, 1), WHOLE_GPU_MILLI).astype(np.int64)
