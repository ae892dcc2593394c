"""What every plan must be and comes to, in plain Python, and the optimum of a tiny problem."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from sim.dag.plan import Plan, Schedule
from sim.dag.problem import DagProblem


def check_plan(problem: DagProblem, plan: Plan) -> None:
    """Every task once on a GPU that holds it, and no child before its parent."""
    graph, count = problem.graph, problem.num_tasks
    assert plan.gpu.shape == (count,)
    assert plan.gpu.min() >= 0 and plan.gpu.max() < problem.num_gpus
    assert sorted(plan.order.tolist()) == list(range(count))
    place = np.argsort(plan.order)
    child = np.repeat(np.arange(count), np.diff(graph.first_parent))
    assert (place[graph.parent] < place[child]).all()
    assert (graph.need_gib <= problem.machines.memory_gib[plan.gpu]).all()


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


def optimum_s(problem: DagProblem) -> float:
    """By the plain evaluator: every GPU of every task, in every order."""
    orders = [np.array(order) for order in _orders(problem)]
    return min(
        schedule_of(problem, Plan(np.array(gpu), order)).makespan_s
        for gpu in product(range(problem.num_gpus), repeat=problem.num_tasks)
        for order in orders
    )


def _orders(problem: DagProblem, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every order that keeps parents before children."""
    graph = problem.graph
    if len(done) == problem.num_tasks:
        yield done
    for task in range(problem.num_tasks):
        parents = graph.parent[graph.first_parent[task] : graph.first_parent[task + 1]]
        if task not in done and set(parents.tolist()) <= set(done):
            yield from _orders(problem, (*done, task))
