"""A DAG on machines, as compiled code reads it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.graph import DagError, TaskGraph
from sim.dag.machines import Machines


class DagArrays(NamedTuple):
    """The arrays of a problem with n tasks, E edges and g GPUs; see `TaskGraph`, `Machines`."""

    work: FloatArray  # (n,)
    first_parent: IntArray  # (n + 1,)
    parent: IntArray  # (E,)
    parent_mb: FloatArray  # (E,)
    first_child: IntArray  # (n + 1,)
    child: IntArray  # (E,)
    child_mb: FloatArray  # (E,)
    speed: FloatArray  # (g,)
    s_per_mb: FloatArray  # (g, g)
    need: FloatArray  # (n,)
    room: FloatArray  # (g,)


@dataclass(frozen=True)
class DagProblem:
    """Which GPU runs each task, and when, so that the last one ends as early as can be?

    A task runs on one GPU without a break, on `speed` it takes `work / speed`, a GPU runs one task
    at a time, and a task starts once everything from its parents has arrived.
    """

    graph: TaskGraph
    machines: Machines

    @property
    def name(self) -> str:
        """Of the DAG."""
        return self.graph.name

    @property
    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.graph)

    @property
    def num_gpus(self) -> int:
        """How many GPUs there are."""
        return len(self.machines)

    @cached_property
    def arrays(self) -> DagArrays:
        """What compiled functions take."""
        graph, gpus = self.graph, self.machines
        return DagArrays(
            graph.work_s, graph.first_parent, graph.parent, graph.parent_mb,
            graph.first_child, graph.child, graph.child_mb,
            gpus.speed, gpus.s_per_mb, graph.need_gib, gpus.room_gib,
        )  # fmt: skip

    @cached_property
    def mean_s_per_mb(self) -> float:
        """Over pairs of two GPUs; 0 with one GPU."""
        count = self.num_gpus
        pairs = count * (count - 1)
        return float(self.machines.s_per_mb.sum() / pairs) if pairs else 0.0

    @cached_property
    def mean_s_per_work(self) -> float:
        """Mean over GPUs of 1 / speed."""
        return float(np.mean(1.0 / self.machines.speed))


def dag_problem(graph: TaskGraph, gpus: Machines) -> DagProblem:
    """Put a DAG on machines.

    Raises:
        DagError: a task fits no GPU.
    """
    room = float(gpus.room_gib.max())
    too_big = np.flatnonzero(graph.need_gib > room)
    if len(too_big):
        row = int(too_big[0])
        raise DagError(
            f"{graph.name}: task {graph.tasks[row]!r} needs {graph.need_gib[row]:g} GiB and fits "
            f"no GPU: the largest of {gpus.name} has {room:g}; split the task or add a GPU"
        )
    return DagProblem(graph, gpus)
