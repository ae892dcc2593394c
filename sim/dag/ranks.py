"""Priorities of list schedulers: ranks upwards and downwards, and PEFT's optimistic costs."""

import numpy as np

from sim.arrays import FloatArray
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
