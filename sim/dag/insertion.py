"""Tasks on a GPU as a linked list in order of time, and the first gap that a task fits."""

from typing import NamedTuple

from sim.arrays import FloatArray, IntArray
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
    """
    behind = lanes.last[here]
    if behind == NONE:
        return ready_s, NONE
    begin = max(ready_s, lanes.finish[behind])
    later = behind
    while later != NONE and lanes.start[later] > ready_s:
        earlier = lanes.before[later]
        low = ready_s if earlier == NONE else max(ready_s, lanes.finish[earlier])
        if low + length_s <= lanes.start[later]:
            begin, behind = low, earlier
        later = earlier
    return begin, behind


@kernel
def put(lanes: Lanes, task: int, here: int, begin_s: float, length_s: float, behind: int) -> None:
    """Place the task in the gap that `first_gap` found."""
    if behind == NONE:  # walk to the first one: lists know their end only
        later = NONE
        earlier = lanes.last[here]
        while earlier != NONE:
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
