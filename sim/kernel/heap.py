"""Indexed binary heap of running jobs, keyed (time of what they do next, job)."""

from sim.jit import kernel
from sim.kernel.layout import NO_JOB, State


@kernel
def _up(state: State, at: int, at_s: float, job: int) -> None:
    """Write (at_s, job) at `at` or above."""
    heap, jobs = state.heap, state.job
    while at > 0:
        above = (at - 1) // 2
        other = heap[above].job
        if heap[above].at_s < at_s or (heap[above].at_s == at_s and other < job):
            break
        heap[at].at_s = heap[above].at_s
        heap[at].job = other
        jobs[other].heap_at = at
        at = above
    heap[at].at_s = at_s
    heap[at].job = job
    jobs[job].heap_at = at


@kernel
def _down(state: State, at: int, at_s: float, job: int) -> None:
    """Write (at_s, job) at `at` or below."""
    heap, jobs, size = state.heap, state.job, state.world[0].heap_size
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size:
            right_s, left_s = heap[below + 1].at_s, heap[below].at_s
            if right_s < left_s or (right_s == left_s and heap[below + 1].job < heap[below].job):
                below += 1
        other = heap[below].job
        if heap[below].at_s > at_s or (heap[below].at_s == at_s and other > job):
            break
        heap[at].at_s = heap[below].at_s
        heap[at].job = other
        jobs[other].heap_at = at
        at = below
    heap[at].at_s = at_s
    heap[at].job = job
    jobs[job].heap_at = at


@kernel
def _settle(state: State, at: int, at_s: float, job: int) -> None:
    heap = state.heap
    above = (at - 1) // 2
    if at > 0 and (at_s < heap[above].at_s or (at_s == heap[above].at_s and job < heap[above].job)):
        _up(state, at, at_s, job)
    else:
        _down(state, at, at_s, job)


@kernel
def heap_set(state: State, job: int, at_s: float) -> None:
    """Insert `job` or move it to its new time."""
    at = state.job[job].heap_at
    if at == NO_JOB:
        world = state.world[0]
        at = world.heap_size
        world.heap_size = at + 1
        _up(state, at, at_s, job)
    else:
        _settle(state, at, at_s, job)


@kernel
def heap_remove(state: State, job: int) -> None:
    """Take `job` out, if it is there."""
    jobs, heap, world = state.job, state.heap, state.world[0]
    at = jobs[job].heap_at
    if at == NO_JOB:
        return
    last = world.heap_size - 1
    world.heap_size = last
    jobs[job].heap_at = NO_JOB
    if at != last:
        _settle(state, at, heap[last].at_s, heap[last].job)
