"""Let time pass until a decision is due."""

import numpy as np
from numba import njit

from sim.kernel.log import ARRIVAL, FINISH, log_event
from sim.kernel.placing import queue_insert, vacate
from sim.kernel.rates import rerate
from sim.kernel.state import (
    FINISHED,
    HEAP_SIZE,
    NEXT_ARRIVAL,
    NOW_S,
    NUM_QUEUED,
    NUM_RUNNING,
    QUEUED,
    WAKE_S,
    State,
)

DECIDE, OVER, STUCK = 0, 1, 2  # what `advance_until_decision` returns


@njit(cache=True)
def _next_event_s(state: State) -> float:
    at_s = state.clock[WAKE_S]
    if state.counts[HEAP_SIZE] > 0:
        at_s = min(at_s, state.heap_s[state.heap[0]])
    if state.counts[NEXT_ARRIVAL] < len(state.submit_s):
        at_s = min(at_s, state.submit_s[state.counts[NEXT_ARRIVAL]])
    return float(at_s)


@njit(cache=True)
def _finish_due(state: State) -> None:
    now_s = state.clock[NOW_S]
    while state.counts[HEAP_SIZE] > 0 and state.heap_s[state.heap[0]] <= now_s:
        job = state.heap[0]
        vacate(state, job, FINISHED)
        state.progress_s[job] = state.work_s[job]
        state.finish_s[job] = now_s
        log_event(state, FINISH, job)


@njit(cache=True)
def _admit_due(state: State) -> None:
    now_s = state.clock[NOW_S]
    while state.counts[NEXT_ARRIVAL] < len(state.submit_s):
        job = state.counts[NEXT_ARRIVAL]
        if state.submit_s[job] > now_s:
            return
        state.counts[NEXT_ARRIVAL] = job + 1
        state.status[job] = QUEUED
        queue_insert(state, job)
        log_event(state, ARRIVAL, job)


@njit(cache=True)
def observe(state: State) -> None:
    """Refresh what a view shows of running jobs, leaving what finish times are made from."""
    now_s = state.clock[NOW_S]
    for at in range(state.counts[NUM_RUNNING]):
        job = state.running[at]
        ahead_s = max(0.0, now_s - state.rated_s[job])
        state.seen_progress_s[job] = state.progress_s[job] + state.rate[job] * ahead_s
        served_s = state.served_s[job] + max(0.0, now_s - state.resume_s[job])
        state.attained_gpu_s[job] = served_s * state.num_gpus[job]


@njit(cache=True)
def advance_until_decision(state: State) -> int:
    """Pop finishes, arrivals and wake-ups, instant by instant, until somebody must decide."""
    while True:
        at_s = _next_event_s(state)
        if np.isinf(at_s):
            return STUCK if state.counts[NUM_QUEUED] > 0 else OVER
        state.clock[NOW_S] = at_s
        _finish_due(state)
        _admit_due(state)
        rerate(state)
        woken = state.clock[WAKE_S] <= at_s
        if woken:
            state.clock[WAKE_S] = np.inf
        if state.counts[NUM_QUEUED] > 0 or woken:
            observe(state)
            return DECIDE
