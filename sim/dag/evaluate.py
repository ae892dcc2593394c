"""The compiled evaluator: what many plans come to, equal to `plan.schedule_of` to the last bit."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.plan import Plan, Schedule
from sim.dag.problem import DagArrays, DagProblem
from sim.jit import kernel


@kernel
def arrives_s(dag: DagArrays, task: int, here: int, gpu: IntArray, finish: FloatArray) -> float:
    """When everything from its parents has arrived at GPU `here`."""
    latest = 0.0
    for edge in range(dag.first_parent[task], dag.first_parent[task + 1]):
        parent = dag.parent[edge]
        at = finish[parent] + dag.parent_mb[edge] * dag.s_per_mb[gpu[parent], here]
        latest = max(latest, at)
    return latest


@kernel
def follow(
    dag: DagArrays,
    gpu: IntArray,
    order: IntArray,
    start: FloatArray,
    finish: FloatArray,
    free_at: FloatArray,
) -> float:
    """Follow one plan; fills `start` and `finish` (n,), uses `free_at` (g,), returns makespan."""
    free_at[:] = 0.0
    last = 0.0
    for place in range(len(order)):
        task = order[place]
        here = gpu[task]
        begin = max(free_at[here], arrives_s(dag, task, here, gpu, finish))
        end = begin + dag.work[task] / dag.speed[here]
        start[task] = begin
        finish[task] = end
        free_at[here] = end
        last = max(last, end)
    return last


@kernel
def follow_all(  # noqa: PLR0917  (compiled functions take their arrays by position)
    dag: DagArrays,
    gpu: IntArray,
    order: IntArray,
    start: FloatArray,
    finish: FloatArray,
    free_at: FloatArray,
    makespan: FloatArray,
) -> None:
    """The same for each of P plans: `gpu`, `order`, `start` and `finish` are (P, n)."""
    for plan in range(len(makespan)):
        makespan[plan] = follow(dag, gpu[plan], order[plan], start[plan], finish[plan], free_at)


def schedule(problem: DagProblem, plan: Plan) -> Schedule:
    """When a plan runs each task."""
    start, finish = np.empty(problem.num_tasks), np.empty(problem.num_tasks)
    follow(problem.arrays, plan.gpu, plan.order, start, finish, np.empty(problem.num_gpus))
    return Schedule(start, finish)


def makespans_s(problem: DagProblem, plans: Sequence[Plan]) -> FloatArray:
    """(P,) when each plan's last task ends."""
    shape = (len(plans), problem.num_tasks)
    gpu = np.array([plan.gpu for plan in plans]).reshape(shape)
    order = np.array([plan.order for plan in plans]).reshape(shape)
    found = np.empty(len(plans))
    follow_all(
        problem.arrays, gpu, order, np.empty(shape), np.empty(shape),
        np.empty(problem.num_gpus), found,
    )  # fmt: skip
    return found
