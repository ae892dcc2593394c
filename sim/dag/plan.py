"""Plans, what they come to, and the numbers that they are made and judged by.

Ranks and optimistic costs are the priorities of list schedulers; SPD and FTG say how far two plans
are apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagArrays, DagProblem, edge_rows
from sim.jit import array_kernel, kernel


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
    dag: DagArrays, gpu: IntArray, order: IntArray, start: FloatArray, finish: FloatArray,
    free_at: FloatArray,
) -> float:  # fmt: skip
    """Follow one plan; fills `start` and `finish` (n,), uses `free_at` (g,), returns makespan."""
    free_at[:] = 0.0
    last = 0.0
    for place in range(len(order)):  # parents first: their ends are read; gaps stay empty
        task = order[place]
        here = gpu[task]
        begin = max(free_at[here], arrives_s(dag, task, here, gpu, finish))
        end = begin + dag.work[task] / dag.speed[here]
        start[task] = begin
        finish[task] = end
        free_at[here] = end
        last = max(last, end)
    return last


def schedule(problem: DagProblem, plan: Plan) -> Schedule:
    """When a plan runs each task."""
    start, finish = np.empty(problem.num_tasks), np.empty(problem.num_tasks)
    follow(problem.arrays, plan.gpu, plan.order, start, finish, np.empty(problem.num_gpus))
    return Schedule(start, finish)


@array_kernel
def longest_paths(dag: DagArrays, cost: FloatArray, s_per_mb: float) -> FloatArray:
    """(n,) the dearest way from each task (with it) to an end; edges cost MB times `s_per_mb`."""
    count = len(cost)
    rank = np.zeros(count)
    for task in range(count - 1, -1, -1):  # children have larger numbers: one pass from the end
        below = 0.0
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):  # the dearest decides
            below = max(below, rank[dag.child[edge]] + dag.child_mb[edge] * s_per_mb)
        rank[task] = cost[task] + below
    return rank


@array_kernel
def longest_paths_before(dag: DagArrays, cost: FloatArray, s_per_mb: float) -> FloatArray:
    """(n,) the dearest way from a beginning to each task, without it."""
    count = len(cost)
    rank = np.zeros(count)
    for task in range(count):  # parents have smaller numbers: one pass
        for edge in range(dag.first_parent[task], dag.first_parent[task + 1]):  # it waits for all
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
    for task in range(count - 1, -1, -1):  # children have larger numbers: their rows are full
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):  # the dearest decides
            child = dag.child[edge]
            best = np.inf
            for gpu in range(gpus):  # once a child: the best is the same for all GPUs of the task
                if dag.need[child] <= dag.memory[gpu]:
                    best = min(best, table[child, gpu] + dag.work[child] / dag.speed[gpu])
            elsewhere = best + dag.child_mb[edge] * s_per_mb
            for gpu in range(gpus):  # where the child does not fit it has to move
                here = elsewhere
                if dag.need[child] <= dag.memory[gpu]:
                    here = min(here, table[child, gpu] + dag.work[child] / dag.speed[gpu])
                table[task, gpu] = max(table[task, gpu], here)
    return table


@array_kernel
def order_of(dag: DagArrays, to_go: FloatArray) -> IntArray:
    """(n,) tasks by running time to go, where a task is at least as urgent as its children."""
    urgent = to_go.copy()
    for task in range(len(urgent) - 1, -1, -1):  # children have larger numbers: theirs is final
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):  # no child comes first
            urgent[task] = max(urgent[task], urgent[dag.child[edge]])
    return np.argsort(-urgent, kind="mergesort")  # of equals the smaller number: parents first


@array_kernel
def time_to_go(dag: DagArrays, gpu: IntArray) -> FloatArray:
    """(n,) seconds from each task's start to the end, along tasks and transfers of a plan.

    Waits for busy GPUs do not count: HEFT's upward rank, with the plan's times in place of means.
    """
    to_go = np.zeros(len(gpu))
    for task in range(len(gpu) - 1, -1, -1):  # children have larger numbers: one pass from the end
        below = 0.0
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):  # the longest decides
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
    for place in range(len(order) - 1, -1, -1):  # latest start first: all that follow are settled
        task = order[place]
        end = min(latest[task], next_start[gpu[task]])
        for edge in range(dag.first_child[task], dag.first_child[task + 1]):  # no child may be late
            child = dag.child[edge]
            begin = latest[child] - (finish[child] - start[child])
            moved = dag.child_mb[edge] * dag.s_per_mb[gpu[task], gpu[child]]
            end = min(end, begin - moved)
        latest[task] = end
        next_start[gpu[task]] = end - (finish[task] - start[task])
    return latest - finish


def lower_bound_s(problem: DagProblem) -> float:
    """The larger of two: the longest path, and all work shared out.

    The path counts each task on the fastest GPU that it fits, and no transfers (all may be on one
    GPU); the work is spread over all GPUs by their speeds.
    """
    graph, gpus = problem.graph, problem.machines
    fits = graph.need_gib[:, None] <= gpus.memory_gib[None, :]
    best_speed = np.where(fits, gpus.speed[None, :], 0.0).max(axis=1)
    path_s = longest_paths(problem.arrays, graph.work_s / best_speed, 0.0)
    return max(float(path_s.max()), float(graph.work_s.sum() / gpus.speed.sum()))


def running_times_s(problem: DagProblem, gpu: IntArray) -> FloatArray:
    """(n,) the position of a whale as published: the load of the GPU that hosts each task.

    The load is the time of all tasks there, waits left out.
    """
    took_s = problem.graph.work_s / problem.machines.speed[gpu]
    load_s: FloatArray = np.bincount(gpu, took_s, problem.num_gpus).astype(np.float64)
    return load_s[gpu]


def gap_correlation(problem: DagProblem, plans: Sequence[Plan]) -> float:
    """Pearson's r of SPD and FTG, the gap between makespans, over all pairs of plans; NaN if flat.

    SPD is the mean difference of running times; which norm the paper takes is not known.
    Published, read off the figures: 0.16 to 0.54 on Alibaba's DAGs with 50 GPUs, 0.37 to 0.54 with
    500.
    """
    times = np.array([running_times_s(problem, plan.gpu) for plan in plans])  # (P, n)
    ends = np.array([schedule(problem, plan).makespan_s for plan in plans])
    one, other = np.triu_indices(len(plans), 1)
    spd = np.array([np.abs(times[a] - times[b]).mean() for a, b in zip(one, other, strict=True)])
    ftg = np.abs(ends[one] - ends[other])
    if len(spd) < 2 or not spd.std() or not ftg.std():  # noqa: PLR2004  (no spread, no r)
        return float("nan")
    return float(np.corrcoef(spd, ftg)[0, 1])


def mirrored(dag: DagArrays) -> DagArrays:
    """Task i of n becomes task n - 1 - i, so that parents still come first."""
    count = len(dag.work)
    parents = _turned(count, dag.first_child, dag.child, dag.child_mb)
    children = _turned(count, dag.first_parent, dag.parent, dag.parent_mb)
    return DagArrays(
        dag.work[::-1].copy(), *parents, *children,
        dag.speed, dag.s_per_mb, dag.need[::-1].copy(), dag.memory,
    )  # fmt: skip


def _turned(
    count: int, first: IntArray, other: IntArray, mb: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    row = count - 1 - np.repeat(np.arange(count), np.diff(first))
    return edge_rows(count, row, count - 1 - other, mb)
