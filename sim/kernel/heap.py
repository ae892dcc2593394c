"""Indexed binary heap of running jobs, keyed (finish time, job); keys change in place."""

from numba import njit

from sim.kernel.state import HEAP_SIZE, NO_JOB, State


@njit(cache=True)
def _before(state: State, a: int, b: int) -> bool:
    if state.heap_s[a] != state.heap_s[b]:
        return bool(state.heap_s[a] < state.heap_s[b])
    return a < b


@njit(cache=True)
def _up(state: State, at: int) -> None:
    job = state.heap[at]
    while at > 0:
        above = (at - 1) // 2
        if not _before(state, job, state.heap[above]):
            break
        state.heap[at] = state.heap[above]
        state.heap_at[state.heap[at]] = at
        at = above
    state.heap[at] = job
    state.heap_at[job] = at


@njit(cache=True)
def _down(state: State, at: int) -> None:
    job = state.heap[at]
    size = state.counts[HEAP_SIZE]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _before(state, state.heap[below + 1], state.heap[below]):
            below += 1
        if not _before(state, state.heap[below], job):
            break
        state.heap[at] = state.heap[below]
        state.heap_at[state.heap[at]] = at
        at = below
    state.heap[at] = job
    state.heap_at[job] = at


@njit(cache=True)
def heap_set(state: State, job: int, finish_s: float) -> None:
    """Insert `job` or move it to its new finish time."""
    state.heap_s[job] = finish_s
    if state.heap_at[job] == NO_JOB:
        at = state.counts[HEAP_SIZE]
        state.heap[at] = job
        state.heap_at[job] = at
        state.counts[HEAP_SIZE] = at + 1
        _up(state, at)
        return
    _up(state, state.heap_at[job])
    _down(state, state.heap_at[job])


@njit(cache=True)
def heap_remove(state: State, job: int) -> None:
    """Take `job` out."""
    at = state.heap_at[job]
    last = state.counts[HEAP_SIZE] - 1
    state.counts[HEAP_SIZE] = last
    state.heap_at[job] = NO_JOB
    if at == last:
        return
    moved = state.heap[last]
    state.heap[at] = moved
    state.heap_at[moved] = at
    _up(state, at)
    _down(state, state.heap_at[moved])
