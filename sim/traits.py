"""What a job may ask for, belong to or undergo beyond its gang and its work; all optional."""

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray

WHOLE_GPU_MILLI = 1000
ANY_TYPE = -1  # every bit of `Demands.type_mask`
NEVER_S = np.inf

COMPLETED, FAILED, CANCELLED = 0, 1, 2  # values of Fates.outcome


class _Columns:
    """Dataclass of equally long columns."""

    def take(self, rows: IntArray | BoolArray) -> Self:
        """The jobs at `rows` (positions or a mask), in that order."""
        return type(self)(*(getattr(self, each.name)[rows] for each in fields(self)))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Demands(_Columns):
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


@dataclass(frozen=True)
class Elastic(_Columns):
    """Jobs that can run with another number of GPUs than their gang size."""

    least_gpus: IntArray  # (J,) 1 <= least_gpus <= num_gpus
    most_gpus: IntArray  # (J,) >= num_gpus


@dataclass(frozen=True)
class Identity(_Columns):
    """Who submitted a job and what it repeats: small numbers, -1 where unknown."""

    user: IntArray  # (J,)
    group: IntArray  # (J,) jobs of one group are runs of the same thing (recurrence)
    vc: IntArray  # (J,) virtual cluster


@dataclass(frozen=True)
class Urgency(_Columns):
    """How much a job matters, and by when."""

    priority: IntArray  # (J,) larger is more important; 0 where the trace has none
    deadline_s: FloatArray  # (J,) run time; NEVER_S where there is none


@dataclass(frozen=True)
class Fates(_Columns):
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


def codes_of(names: TextArray) -> IntArray:
    """(J,) small numbers in order of first appearance, -1 for ""."""
    known: dict[str, int] = {"": -1}
    return np.array([known.setdefault(name, len(known) - 1) for name in names], dtype=np.int64)
