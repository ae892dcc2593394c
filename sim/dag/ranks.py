"""Priorities of list schedulers (ranks up and down, PEFT's optimistic costs), and their orders."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagArrays, DagProblem
from sim.jit import array_kernel


@array_kernel
def longest_paths(dag: DagArrays, cost: FloatArray, s_per_mb: float) -> FloatArray:
    """(n,) the dearest way from each task (with it) to an end; edges cost MB times `s_per_mb`."""
    count = len(cost)
    rank = np.zeros(count)
    for task in range(count - 1, -1, -1):
        below = 0.0
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):
            below = max(below, rank[dag.child[edge]] + dag.child_mb[edge] * s_per_mb)
        rank[task] = cost[task] + below
    return rank


@array_kernel
def longest_paths_before(dag: DagArrays, cost: FloatArray, s_per_mb: float) -> FloatArray:
    """(n,) the dearest way from a beginning to each task, without it."""
    count = len(cost)
    rank = np.zeros(count)
    for task in range(count):
        for edge in range(dag.first_parent[task], dag.first_parent[task + 1]):
            parent = dag.parent[edge]
            way = rank[parent] + cost[parent] + dag.parent_mb[edge] * s_per_mb
            rank[task] = max(rank[task], way)
    return rank


def upward_rank_s(problem: DagProblem) -> FloatArray:
    """(n,) HEFT's: mean times over GPUs, mean transfers over pairs of GPUs."""
    cost = problem.graph.work_s * problem.mean_s_per_work
    return longest_paths(problem.arrays, cost, problem.mean_s_per_mb)


def downward_rank_s(problem: DagProblem) -> FloatArray:
    """(n,) CPOP's: the longest way to a task by the same means."""
    cost = problem.graph.work_s * problem.mean_s_per_work
    return longest_paths_before(problem.arrays, cost, problem.mean_s_per_mb)


@array_kernel
def optimistic_costs(dag: DagArrays, s_per_mb: float) -> FloatArray:
    """(n, g) PEFT's table: what still comes after a task on a GPU, if all goes well.

    The best GPU of a child is either the same one, without a transfer, or the best of all with a
    mean one, so a child costs g steps and not g squared.
    """
    count, gpus = len(dag.work), len(dag.speed)
    table = np.zeros((count, gpus))
    for task in range(count - 1, -1, -1):
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):
            child = dag.child[edge]
            best = np.inf
            for gpu in range(gpus):
                if dag.need[child] <= dag.room[gpu]:
                    best = min(best, table[child, gpu] + dag.work[child] / dag.speed[gpu])
            elsewhere = best + dag.child_mb[edge] * s_per_mb
            for gpu in range(gpus):
                here = elsewhere
                if dag.need[child] <= dag.room[gpu]:
                    here = min(here, table[child, gpu] + dag.work[child] / dag.speed[gpu])
                table[task, gpu] = max(table[task, gpu], here)
    return table


@array_kernel
def order_of(dag: DagArrays, to_go: FloatArray) -> IntArray:
    """(n,) tasks by running time to go, where a task is at least as urgent as its children."""
    urgent = to_go.copy()
    for task in range(len(urgent) - 1, -1, -1):
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):
            urgent[task] = max(urgent[task], urgent[dag.child[edge]])
    return np.argsort(-urgent, kind="mergesort")  # of equals the smaller number: parents first


@array_kernel
def time_to_go(dag: DagArrays, gpu: IntArray) -> FloatArray:
    """(n,) seconds from each task's start to the end, along tasks and transfers of a plan.

    Waits for busy GPUs do not count: HEFT's upward rank, with the plan's times in place of means.
    """
    to_go = np.zeros(len(gpu))
    for task in range(len(gpu) - 1, -1, -1):
        below = 0.0
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):
            child = dag.child[edge]
            moved = dag.child_mb[edge] * dag.s_per_mb[gpu[task], gpu[child]]
            below = max(below, to_go[child] + moved)
        to_go[task] = dag.work[task] / dag.speed[gpu[task]] + below
    return to_go


@array_kernel
def slack_s(
    dag: DagArrays, gpu: IntArray, order: IntArray, start: FloatArray, finish: FloatArray
) -> FloatArray:
    """(n,) how much later each task of a schedule could end without ending the plan later.

    GPUs and the order of their tasks stay; `order` names tasks by their starts.
    """
    latest = np.full(len(gpu), finish.max())
    next_start = np.full(len(dag.speed), finish.max())
    for place in range(len(order) - 1, -1, -1):
        task = order[place]
        end = min(latest[task], next_start[gpu[task]])
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):
            child = dag.child[edge]
            begin = latest[child] - (finish[child] - start[child])
            moved = dag.child_mb[edge] * dag.s_per_mb[gpu[task], gpu[child]]
            end = min(end, begin - moved)
        latest[task] = end
        next_start[gpu[task]] = end - (finish[task] - start[task])
    return latest - finish
