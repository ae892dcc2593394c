"""Plans of hoped running times: order by time to go, GPUs near the hoped-for loads."""

from typing import Protocol

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.evaluate import arrives_s
from sim.dag.list_scheduling import NONE, Lanes, first_gap, new_lanes, put
from sim.dag.plan import Schedule
from sim.dag.problem import DagArrays
from sim.dag.ranks import order_of
from sim.jit import kernel

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
    for here in range(len(load_s)):
        if dag.need[task] > dag.room[here]:
            continue
        away = abs(hope_s - (load_s[here] + dag.work[task] / dag.speed[here]))
        if count < NEAREST:
            count += 1
        elif away >= gap[count - 1]:
            continue
        place = count - 1
        while place > 0 and gap[place - 1] > away:
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
        self,
        dag: DagArrays,
        to_go_s: FloatArray,
        hope_s: FloatArray,
        gpu: IntArray,
        *,
        leaves: BoolArray,
        outlook: FloatArray,
    ) -> tuple[IntArray, Schedule]:
        """Place every task."""
        ...


def gap_plan(
    dag: DagArrays,
    to_go_s: FloatArray,
    hope_s: FloatArray,
    gpu: IntArray,
    *,
    leaves: BoolArray,
    outlook: FloatArray,
) -> tuple[IntArray, Schedule]:
    """GPUs and times that `place_by_gap` finds.

    Args:
        dag: the problem, or its mirror.
        to_go_s: (n,) hoped running times to go: the longest is placed first.
        hope_s: (n,) hoped load of each task's GPU when the task ends.
        gpu: (n,) where the target has the tasks.
        leaves: (n,) tasks that are to go elsewhere, unless that takes much longer.
        outlook: (n, g) or (1, g) seconds that count beside a task's end.
    """
    lanes = new_lanes(len(to_go_s), len(dag.speed))
    room = NEAREST + MOST_PARENTS + 1
    place_by_gap(
        dag, order_of(dag, to_go_s), hope_s, gpu, leaves, outlook,
        np.zeros(len(dag.speed)), np.zeros(room, dtype=np.int64), np.zeros(room), lanes,
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
    for place in range(len(order)):
        task = order[place]
        count = nearest_gpus(dag, task, hope[task], load, shortlist, gap)
        first = dag.first_parent[task]
        for edge in range(first, min(dag.first_parent[task + 1], first + MOST_PARENTS)):
            count = _joined(dag, task, shortlist, count, lanes.gpu[dag.parent[edge]])
        count = _joined(dag, task, shortlist, count, gpu[task])
        best, best_begin, best_gpu, best_behind = np.inf, 0.0, 0, NONE
        for listed in range(count):
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
    if dag.need[task] > dag.room[here]:
        return count
    for listed in range(count):
        if shortlist[listed] == here:
            return count
    shortlist[count] = here
    return count + 1
