"""What list schedulers share: an order by priority, and each task where it ends (or looks) best."""

from heapq import heapify, heappop, heappush

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.evaluate import arrives_s
from sim.dag.insertion import NONE, Lanes, first_gap, put
from sim.dag.plan import Plan, Schedule, plan_of_schedule
from sim.dag.problem import DagArrays, DagProblem
from sim.jit import kernel

FREE = -1  # a task that may go to any GPU it fits


def new_lanes(tasks: int, gpus: int) -> Lanes:
    """No task placed yet."""
    return Lanes(
        np.full(gpus, NONE),
        np.full(tasks, NONE),
        np.full(tasks, NONE),
        np.zeros(tasks, dtype=np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
    )


def ready_order(problem: DagProblem, priority: FloatArray) -> IntArray:
    """(n,) tasks: of those whose parents are named, always the one of highest priority."""
    graph = problem.graph
    waits_for = np.diff(graph.first_parent).tolist()
    urgent = (-priority).tolist()
    ready = [(urgent[task], task) for task, count in enumerate(waits_for) if count == 0]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)[1]
        order.append(task)
        for child in graph.child[graph.first_child[task] : graph.first_child[task + 1]].tolist():
            waits_for[child] -= 1
            if waits_for[child] == 0:
                heappush(ready, (urgent[child], child))
    return np.array(order, dtype=np.int64)


@kernel
def place_all(
    dag: DagArrays, order: IntArray, pinned: IntArray, outlook: FloatArray, lanes: Lanes
) -> None:
    """Place tasks in order, each in the first gap of the GPU with the least end plus outlook.

    Args:
        dag: the problem.
        order: (n,) parents before children.
        pinned: (n,) GPU, or FREE.
        outlook: (n, g) or (1, g), seconds that count beside a task's end.
        lanes: empty; filled.
    """
    rows = len(outlook)
    for place in range(len(order)):
        task = order[place]
        best, best_begin, best_gpu, best_behind = np.inf, 0.0, 0, NONE
        pin = pinned[task]
        first, end = (0, len(dag.speed)) if pin == FREE else (pin, pin + 1)
        for here in range(first, end):
            if dag.need[task] > dag.room[here]:
                continue
            length = dag.work[task] / dag.speed[here]
            ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
            begin, behind = first_gap(lanes, here, ready, length)
            score = begin + length + outlook[task if rows > 1 else 0, here]
            if score < best:
                best, best_begin, best_gpu, best_behind = score, begin, here, behind
        length = dag.work[task] / dag.speed[best_gpu]
        put(lanes, task, best_gpu, best_begin, length, best_behind)


def placed(
    problem: DagProblem,
    order: IntArray,
    *,
    pinned: IntArray | None = None,
    outlook: FloatArray | None = None,
) -> Plan:
    """The plan that `place_all` makes; nothing pinned and no outlook unless given."""
    lanes = new_lanes(problem.num_tasks, problem.num_gpus)
    pins = np.full(problem.num_tasks, FREE) if pinned is None else pinned
    beside = np.zeros((1, problem.num_gpus)) if outlook is None else outlook
    place_all(problem.arrays, order, pins, beside, lanes)
    return plan_of_schedule(lanes.gpu, Schedule(lanes.start, lanes.finish))
