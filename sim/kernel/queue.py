"""The queue: waiting jobs in ascending order of row, kept in place."""

from sim.jit import kernel
from sim.kernel.layout import State


@kernel
def queue_insert(state: State, job: int) -> None:
    """Put `job` in; moves the shorter side where there is room in front."""
    world, queue = state.world[0], state.queue
    first = world.queue_first
    last = first + world.num_queued
    world.num_queued += 1
    if world.num_joined < len(state.joined):  # full where nobody looks
        state.joined[world.num_joined] = job
        world.num_joined += 1
    if first > 0 and last > first and job < queue[first + (last - first) // 2]:
        at = first - 1
        world.queue_first = at
        while at + 1 < last and queue[at + 1] < job:
            queue[at] = queue[at + 1]
            at += 1
        queue[at] = job
        return
    if last == len(queue):
        for at in range(first, last):
            queue[at - first] = queue[at]
        world.queue_first = 0
        last -= first
        first = 0
    while last > first and queue[last - 1] > job:
        queue[last] = queue[last - 1]
        last -= 1
    queue[last] = job


@kernel
def queue_remove(state: State, job: int) -> None:
    """Take `job` out; moves the shorter side."""
    world, queue = state.world[0], state.queue
    first = world.queue_first
    last = first + world.num_queued
    world.num_queued -= 1
    low, high = first, last
    if queue[first] == job:
        high = first
    while low < high:
        middle = (low + high) // 2
        if queue[middle] < job:
            low = middle + 1
        else:
            high = middle
    if low - first < last - 1 - low:
        for at in range(low, first, -1):
            queue[at] = queue[at - 1]
        world.queue_first = first + 1
    else:
        for at in range(low, last - 1):
            queue[at] = queue[at + 1]
