"""The optimum of a tiny problem: every GPU of every task, in every order."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from tests.dag.plan_rules import schedule_of


def optimum_s(problem: DagProblem) -> float:
    """By the plain evaluator."""
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
