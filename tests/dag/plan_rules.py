"""What every plan must be, and what it comes to, in plain Python."""

from collections.abc import Sequence

import numpy as np

from sim.dag.plan import Plan, Schedule
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
    tight = np.flatnonzero(graph.need_gib > problem.machines.memory_gib[plan.gpu])
    if len(tight):
        row = int(tight[0])
        raise DagError(
            f"task {graph.tasks[row]!r} needs {graph.need_gib[row]:g} GiB, GPU {plan.gpu[row]} has "
            f"{problem.machines.memory_gib[plan.gpu[row]]:g}"
        )


def schedule_of(problem: DagProblem, plan: Plan) -> Schedule:
    """Follow the plan, task by task: `sim.dag.plan.schedule` to the last bit."""
    graph = problem.graph
    work, speed = graph.work_s.tolist(), problem.machines.speed.tolist()
    pace: Sequence[Sequence[float]] = problem.machines.s_per_mb.tolist()
    gpu = plan.gpu.tolist()
    start, finish = [0.0] * len(work), [0.0] * len(work)
    free_at = [0.0] * len(speed)
    for task in plan.order.tolist():
        here = gpu[task]
        begin = free_at[here]
        for edge in range(graph.first_parent[task], graph.first_parent[task + 1]):
            parent = int(graph.parent[edge])
            arrival = finish[parent] + float(graph.parent_mb[edge]) * pace[gpu[parent]][here]
            begin = max(begin, arrival)
        start[task] = begin
        finish[task] = free_at[here] = begin + work[task] / speed[here]
    return Schedule(np.array(start), np.array(finish))
