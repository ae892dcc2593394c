"""DAGs out of Alibaba's 2018 batch jobs: whole jobs, drawn until there are enough tasks."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.errors import DagError
from sim.dag.graph import TaskGraph, task_graph
from sim.dag.sources.generated import MB_SPREAD, log_normal
from sim.traces.trace import Trace
from sim.traits import Precedence

LEAST = 2  # tasks of a job that counts as a DAG
ENOUGH = 0.95  # of the tasks asked for


def alibaba_graph(
    trace: Trace, *, tasks: int, longest_s: float, mb_per_s: float, rng: np.random.Generator
) -> TaskGraph:
    """Jobs of a trace with parents (`sim.traces.alibaba_dag`) as one batch, all there at once.

    Durations are the work. Sizes are not in the trace: a task hands each child a log-normal
    number of MB with mean `mb_per_s` times its own duration.

    Args:
        trace: as read; jobs of one task are left out.
        tasks: at most how many; a job that would exceed it is passed over, so one or two may lack.
        longest_s: jobs whose longest path takes longer are left out, which else is all there is
            to plan.
        mb_per_s: as above.
        rng: of jobs and sizes.

    Raises:
        DagError: the trace has no parents, or too few tasks.
    """
    before = trace.precedence
    if before is None:
        raise DagError(f"{trace.name} says nothing of parents; read it with AlibabaDag")
    rows = _drawn(before, trace.duration_s, tasks, longest_s, rng)
    if len(rows) < ENOUGH * tasks:
        raise DagError(
            f"{trace.name} has {len(rows)} tasks in DAGs of at most {longest_s:g} s; ask for fewer "
            f"than {tasks}"
        )
    names = {row: str(trace.job_id[row]) for row in rows}
    mean_mb = mb_per_s * trace.duration_s
    spread = log_normal(1.0, MB_SPREAD, len(before.parents), rng)
    edges = [
        (names[parent], names[row], float(mean_mb[parent] * spread[edge]))
        for row in rows
        for edge in range(before.first[row], before.first[row + 1])
        for parent in [int(before.parents[edge])]
    ]
    return task_graph(f"alibaba_{tasks}", list(names.values()), trace.duration_s[rows], edges)


def _drawn(
    before: Precedence, duration_s: FloatArray, tasks: int, longest_s: float,
    rng: np.random.Generator,
) -> list[int]:  # fmt: skip
    """Rows of whole jobs in random order, until they are `tasks`."""
    members = _members(before)
    rows: list[int] = []
    for job in rng.permutation(len(members)).tolist():
        mine = members[job]
        if len(mine) < LEAST or len(rows) + len(mine) > tasks:
            continue
        if _longest_s(before, duration_s, mine) <= longest_s:
            rows += mine
    return rows


def _members(before: Precedence) -> list[list[int]]:
    """Rows of each job."""
    order = np.argsort(before.workflow, kind="stable")
    ends: IntArray = np.flatnonzero(np.diff(before.workflow[order])) + 1
    return [part.tolist() for part in np.split(order, ends) if before.workflow[part[0]] >= 0]


def _longest_s(before: Precedence, duration_s: FloatArray, rows: list[int]) -> float:
    """The longest path of a job (which has no circles: the reader saw to that)."""
    ends: dict[int, float] = {}
    stack = list(rows)
    while stack:
        row = stack[-1]
        parents = before.parents[before.first[row] : before.first[row + 1]].tolist()
        missing = [parent for parent in parents if parent not in ends]
        if missing and row not in ends:
            stack += missing
            continue
        stack.pop()
        ends[row] = float(duration_s[row]) + max((ends[p] for p in parents), default=0.0)
    return max(ends.values(), default=0.0)
