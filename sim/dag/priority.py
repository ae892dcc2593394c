"""Orders of tasks from running times to go: the longest first, parents before children."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagArrays
from sim.jit import array_kernel


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
