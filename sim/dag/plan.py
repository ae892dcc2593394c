"""Plans and what they come to, by plain Python: the yardstick of the compiled evaluator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagProblem


@dataclass(frozen=True)
class Plan:
    """The GPU of every task, and an order in which the GPUs take them.

    A GPU runs its tasks in this order, each as soon as the GPU is free and its inputs are there;
    it does not look for gaps. With the tasks in order of their starts every schedule without
    needless waiting is such a plan, those that fill gaps included, so an optimal one is among
    them. Published whales are the GPUs alone, in order of task numbers; the order is ours.
    """

    gpu: IntArray  # (n,)
    order: IntArray  # (n,) tasks, parents before children


@dataclass(frozen=True)
class Schedule:
    """When a plan runs each task."""

    start_s: FloatArray  # (n,)
    finish_s: FloatArray  # (n,)

    @property
    def makespan_s(self) -> float:
        """When the last task ends."""
        return float(self.finish_s.max())


def plan_of_schedule(gpu: IntArray, schedule: Schedule) -> Plan:
    """The plan that gives this schedule, or a better one.

    In order of starts, then of ends, so that a task of no length stays before one that starts as
    it ends; then of numbers, so that parents stay first.
    """
    return Plan(gpu, np.lexsort((schedule.finish_s, schedule.start_s)))


def schedule_of(problem: DagProblem, plan: Plan) -> Schedule:
    """Follow the plan, task by task."""
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
