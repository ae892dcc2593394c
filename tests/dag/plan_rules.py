"""What every plan must be."""

import numpy as np

from sim.dag.plan import Plan
from sim.dag.problem import DagError, DagProblem


def check_plan(problem: DagProblem, plan: Plan) -> None:
    """Refuse what is no plan of this problem.

    Raises:
        DagError: a length or GPU is wrong, the order is none or puts a child before its parent, or
            a task does not fit its GPU.
    """
    graph, count = problem.graph, problem.num_tasks
    if plan.gpu.shape != (count,) or plan.order.shape != (count,):
        raise DagError(f"a plan of {len(plan.gpu)} GPUs for {count} tasks; give one each")
    if plan.gpu.min() < 0 or plan.gpu.max() >= problem.num_gpus:
        raise DagError(f"a plan names GPU {plan.gpu.max()}; there are {problem.num_gpus}, from 0")
    if not np.array_equal(np.sort(plan.order), np.arange(count)):
        raise DagError("the order of a plan must name every task once")
    place = np.empty(count, dtype=np.int64)
    place[plan.order] = np.arange(count)
    child = np.repeat(np.arange(count), np.diff(graph.first_parent))
    early = np.flatnonzero(place[graph.parent] > place[child])
    if len(early):
        a, b = graph.tasks[graph.parent[early[0]]], graph.tasks[child[early[0]]]
        raise DagError(f"the order of a plan puts task {b!r} before its parent {a!r}")
    tight = np.flatnonzero(graph.need_gib > problem.machines.room_gib[plan.gpu])
    if len(tight):
        row = int(tight[0])
        raise DagError(
            f"task {graph.tasks[row]!r} needs {graph.need_gib[row]:g} GiB, GPU {plan.gpu[row]} has "
            f"{problem.machines.room_gib[plan.gpu[row]]:g}"
        )
