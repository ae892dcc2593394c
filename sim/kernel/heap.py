"""The heap of running jobs, by time of what they do next and then by row."""

from sim.heap import OUT, add_to_heap, drop_from_heap, move_in_heap
from sim.jit import kernel
from sim.kernel.layout import State


@kernel
def heap_set(state: State, job: int, at_s: float) -> None:
    """Insert `job` or move it to its new time."""
    world = state.world[0]
    if state.job[job].heap_at == OUT:
        world.heap_size = add_to_heap(state.heap, state.job, world.heap_size, at_s, job, job)
    else:
        move_in_heap(state.heap, state.job, world.heap_size, at_s, job, job)


@kernel
def heap_remove(state: State, job: int) -> None:
    """Take `job` out, if it is there."""
    world = state.world[0]
    if state.job[job].heap_at != OUT:
        world.heap_size = drop_from_heap(state.heap, state.job, world.heap_size, job)
