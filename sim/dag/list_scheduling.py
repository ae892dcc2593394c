"""List schedulers: an order by priority, and each task where it ends (or looks) best.

A GPU's tasks are a linked list in order of time, in which a task takes the first gap that it fits.
HEFT, CPOP and PEFT stand in the middle, plans of hoped running times (gap plans) at the end.
"""

from typing import NamedTuple, Protocol

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.plan import (
    Plan,
    Schedule,
    arrives_s,
    downward_rank_s,
    optimistic_costs,
    order_of,
    plan_of_schedule,
    upward_rank_s,
)
from sim.dag.problem import DagArrays, DagProblem, ready_first
from sim.jit import kernel

NONE = -1  # no task before, or none after


class Lanes(NamedTuple):
    """What runs where and when; tasks that are not placed yet hold nothing that is read."""

    last: IntArray  # (g,) last task of each GPU, or NONE
    before: IntArray  # (n,) the task before on the same GPU, or NONE
    after: IntArray  # (n,) the task after on the same GPU, or NONE
    gpu: IntArray  # (n,)
    start: FloatArray  # (n,)
    finish: FloatArray  # (n,)


@kernel
def first_gap(lanes: Lanes, here: int, ready_s: float, length_s: float) -> tuple[float, int]:
    """When a task could start on GPU `here`, and behind which task (NONE: before all).

    Looks from the end backwards and stops at the first task that starts before the task is ready.
    A task without work fits in front of one that starts at this very time.
    """
    behind = lanes.last[here]
    if behind == NONE:
        return ready_s, NONE
    begin = max(ready_s, lanes.finish[behind])
    later = behind
    while later != NONE and lanes.start[later] >= ready_s:  # the earliest fitting gap stays
        earlier = lanes.before[later]
        low = ready_s if earlier == NONE else max(ready_s, lanes.finish[earlier])
        if low + length_s <= lanes.start[later]:
            begin, behind = low, earlier
        later = earlier
    return begin, behind


@kernel
def put(lanes: Lanes, task: int, here: int, begin_s: float, length_s: float, behind: int) -> None:
    """Place the task in the gap that `first_gap` found."""
    if behind == NONE:
        later = NONE
        earlier = lanes.last[here]
        while earlier != NONE:  # walk to the first one: lists know their end only
            later = earlier
            earlier = lanes.before[earlier]
    else:
        later = lanes.after[behind]
        lanes.after[behind] = task
    lanes.before[task] = behind
    lanes.after[task] = later
    if later == NONE:
        lanes.last[here] = task
    else:
        lanes.before[later] = task
    lanes.gpu[task] = here
    lanes.start[task] = begin_s
    lanes.finish[task] = begin_s + length_s


FREE = -1  # a task that may go to any GPU it fits


def new_lanes(tasks: int, gpus: int) -> Lanes:
    """No task placed yet."""
    return Lanes(
        np.full(gpus, NONE), np.full(tasks, NONE), np.full(tasks, NONE),
        np.zeros(tasks, dtype=np.int64), np.zeros(tasks), np.zeros(tasks),
    )  # fmt: skip


def ready_order(problem: DagProblem, priority: FloatArray) -> IntArray:
    """(n,) tasks: of those whose parents are named, always the one of highest priority."""
    graph, urgent = problem.graph, (-priority).tolist()
    waits_for = np.diff(graph.first_parent).tolist()
    return np.array(ready_first(graph.first_child, graph.child, waits_for, urgent), dtype=np.int64)


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
    for place in range(len(order)):  # parents first: their GPUs and ends are read
        task = order[place]
        best, best_begin, best_gpu, best_behind = np.inf, 0.0, 0, NONE
        pin = pinned[task]
        first, end = (0, len(dag.speed)) if pin == FREE else (pin, pin + 1)
        for here in range(first, end):  # of equals the lowest number; one round if pinned
            if dag.need[task] > dag.memory[here]:
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
    problem: DagProblem, order: IntArray, *, pinned: IntArray | None = None,
    outlook: FloatArray | None = None,
) -> Plan:  # fmt: skip
    """The plan that `place_all` makes; nothing pinned and no outlook unless given."""
    lanes = new_lanes(problem.num_tasks, problem.num_gpus)
    pins = np.full(problem.num_tasks, FREE) if pinned is None else pinned
    beside = np.zeros((1, problem.num_gpus)) if outlook is None else outlook
    place_all(problem.arrays, order, pins, beside, lanes)
    return plan_of_schedule(lanes.gpu, Schedule(lanes.start, lanes.finish))


def heft(problem: DagProblem) -> Plan:
    """Tasks by upward rank, each where it ends first, gaps included.

    Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing" (IEEE TPDS 13:3, 2002).
    """
    return placed(problem, ready_order(problem, upward_rank_s(problem)))


SAME = 1e-9  # relative: ranks along one path differ by rounding only


def cpop(problem: DagProblem) -> Plan:
    """The critical path on the one GPU that ends it first, other tasks where they end first.

    Priority is upward plus downward rank. A critical task that does not fit the GPU of the path
    is treated as any other.

    Source: Topcuoglu, Hariri, Wu (IEEE TPDS 13:3, 2002).
    """
    upward, downward = upward_rank_s(problem), downward_rank_s(problem)
    path = critical_path(problem, upward + downward)
    graph, gpus = problem.graph, problem.machines
    fits = graph.need_gib[path][:, None] <= gpus.memory_gib[None, :]  # (path, g)
    misfits = (~fits).sum(axis=0)
    best = np.lexsort((-gpus.speed, misfits))[0]
    pinned = np.full(problem.num_tasks, FREE)
    pinned[path[fits[:, best]]] = best
    return placed(problem, ready_order(problem, upward + downward), pinned=pinned)


def critical_path(problem: DagProblem, rank_s: np.ndarray) -> IntArray:
    """Tasks of one longest path, from its beginning; of equals the smallest number."""
    graph = problem.graph
    begins = np.flatnonzero(np.diff(graph.first_parent) == 0)
    task = int(begins[np.argmax(rank_s[begins])])
    path = [task]
    while graph.first_child[task] < graph.first_child[task + 1]:
        children = graph.child[graph.first_child[task] : graph.first_child[task + 1]]
        longest = rank_s[children] >= rank_s[path[0]] * (1 - SAME)
        if not longest.any():
            break
        task = int(children[np.argmax(longest)])
        path.append(task)
    return np.array(path, dtype=np.int64)


def peft(problem: DagProblem) -> Plan:
    """As HEFT, with what still comes after a task in mind, if all goes well.

    Source: Arabnejad, Barbosa, "List scheduling algorithm for heterogeneous systems by an
    optimistic cost table" (IEEE TPDS 25:3, 2014).
    """
    table = optimistic_costs(problem.arrays, problem.mean_s_per_mb)
    order = ready_order(problem, table.mean(axis=1))
    return placed(problem, order, outlook=table)


NEAREST = 16  # GPUs on a shortlist


@kernel
def nearest_gpus(
    dag: DagArrays, task: int, hope_s: float, load_s: FloatArray, gpus: IntArray, gap: FloatArray
) -> int:
    """Fill `gpus` and `gap` (at least NEAREST), nearest first; returns how many there are.

    Args:
        dag: the problem.
        task: its memory says which GPUs come into question.
        hope_s: the load that is hoped for, the task included.
        load_s: (g,) now, without the task.
        gpus: to fill.
        gap: to fill, |hope - load with the task|.
    """
    count = 0
    for here in range(len(load_s)):  # keeps the nearest few: no sort of all GPUs
        if dag.need[task] > dag.memory[here]:
            continue
        away = abs(hope_s - (load_s[here] + dag.work[task] / dag.speed[here]))
        if count < NEAREST:
            count += 1
        elif away >= gap[count - 1]:
            continue
        place = count - 1
        while place > 0 and gap[place - 1] > away:  # of equals the lower number stays ahead
            gap[place] = gap[place - 1]
            gpus[place] = gpus[place - 1]
            place -= 1
        gap[place] = away
        gpus[place] = here
    return count


MOST_PARENTS = 16  # whose GPUs join the shortlist
LEAVE = 2.0  # a task that leaves its GPU counts its time there so often


class Generator(Protocol):
    """Makes GPUs and times of hoped running times; arguments as `gap_plan` says."""

    def __call__(
        self, dag: DagArrays, to_go_s: FloatArray, hope_s: FloatArray, gpu: IntArray, *,
        leaves: BoolArray, outlook: FloatArray,
    ) -> tuple[IntArray, Schedule]:  # fmt: skip
        """Place every task."""
        ...


def gap_plan(
    dag: DagArrays,  # the problem, or its mirror
    to_go_s: FloatArray,  # (n,) hoped running times to go: the longest is placed first
    hope_s: FloatArray,  # (n,) hoped load of each task's GPU when the task ends
    gpu: IntArray,  # (n,) where the target has the tasks
    *,
    leaves: BoolArray,  # (n,) tasks that are to go elsewhere, unless that takes much longer
    outlook: FloatArray,  # (n, g) or (1, g) seconds that count beside a task's end
) -> tuple[IntArray, Schedule]:
    """GPUs and times that `place_by_gap` finds."""
    lanes = new_lanes(len(to_go_s), len(dag.speed))
    most = NEAREST + MOST_PARENTS + 1
    place_by_gap(
        dag, order_of(dag, to_go_s), hope_s, gpu, leaves, outlook,
        np.zeros(len(dag.speed)), np.zeros(most, dtype=np.int64), np.zeros(most), lanes,
    )  # fmt: skip
    return lanes.gpu, Schedule(lanes.start, lanes.finish)


@kernel
def place_by_gap(  # noqa: PLR0917  (compiled)
    dag: DagArrays, order: IntArray, hope: FloatArray, gpu: IntArray, leaves: BoolArray,
    outlook: FloatArray, load: FloatArray, shortlist: IntArray, gap: FloatArray, lanes: Lanes,
) -> None:  # fmt: skip
    """Each task, in order, in the first gap of the GPU on its shortlist of least end plus outlook.

    On the shortlist are the GPUs nearest to the hoped-for load, where the load of a GPU is the
    time at which its last task ends; those of the parents, which need no transfer; and the
    target's.
    """
    for place in range(len(order)):  # parents first: their GPUs and ends are read
        task = order[place]
        count = nearest_gpus(dag, task, hope[task], load, shortlist, gap)
        first = dag.first_parent[task]
        # Bounded, as the shortlist is: a task may have any number of parents.
        for edge in range(first, min(dag.first_parent[task + 1], first + MOST_PARENTS)):
            count = _joined(dag, task, shortlist, count, lanes.gpu[dag.parent[edge]])
        count = _joined(dag, task, shortlist, count, gpu[task])
        best, best_begin, best_gpu, best_behind = np.inf, 0.0, 0, NONE
        for listed in range(count):  # of equal scores the GPU nearest to the hope
            here = shortlist[listed]
            length = dag.work[task] / dag.speed[here]
            ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
            begin, behind = first_gap(lanes, here, ready, length)
            again = leaves[task] and here == gpu[task]
            score = begin + (LEAVE * length if again else length)
            score += outlook[task if len(outlook) > 1 else 0, here]
            if score < best:
                best, best_begin, best_gpu, best_behind = score, begin, here, behind
        length = dag.work[task] / dag.speed[best_gpu]
        put(lanes, task, best_gpu, best_begin, length, best_behind)
        load[best_gpu] = max(load[best_gpu], best_begin + length)


@kernel
def _joined(dag: DagArrays, task: int, shortlist: IntArray, count: int, here: int) -> int:
    """The length of the shortlist with GPU `here` on it, if the task fits there."""
    if dag.need[task] > dag.memory[here]:
        return count
    for listed in range(count):
        if shortlist[listed] == here:
            return count
    shortlist[count] = here
    return count + 1
