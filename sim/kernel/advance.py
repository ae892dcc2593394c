"""Let time pass until a decision is due."""

import numpy as np

from sim.jit import kernel
from sim.kernel.layout import (
    BLOCKED,
    CHANGE_SERVER,
    FINISHED,
    QUEUED,
    WITHDRAW,
    WITHDRAWN,
    State,
)
from sim.kernel.leaving import reach_target, requeue
from sim.kernel.rates import rerate
from sim.kernel.records import ARRIVAL, EXPIRE, log_event, log_half_full, queue_insert
from sim.routine import tell

# What `advance_until_decision` returns.
DECIDE, OVER, STUCK = 0, 1, 2
FULL = 3  # nothing to decide yet, but the log wants to be flushed
# What loops that decide themselves return beside OVER, STUCK and FULL.
PAUSE = 4  # as many decisions as wanted have been made
ILLEGAL = 5  # a decision was refused


@kernel
def next_event_s(state: State) -> float:
    """Time of the next instant; inf if nothing will happen any more."""
    world = state.world[0]
    at_s = world.wake_s
    if world.heap_size > 0:
        at_s = min(at_s, state.heap[0].key)
    if world.next_arrival < len(state.job):
        at_s = min(at_s, state.job[world.next_arrival].submit_s)
    if world.num_left > 0 and world.next_outage < len(state.outages):
        at_s = min(at_s, state.outages[world.next_outage].at_s)
    if world.next_withdrawal < len(state.withdrawals):
        at_s = min(at_s, _next_withdrawal_s(state))
    return float(at_s)


@kernel
def _next_withdrawal_s(state: State) -> float:
    """When the next user gives up; users whose job is over are passed by."""
    world = state.world[0]
    while world.next_withdrawal < len(state.withdrawals):
        row = state.job[state.withdrawals[world.next_withdrawal]]
        if row.status not in (FINISHED, WITHDRAWN):
            return float(row.withdraw_at_s)
        world.next_withdrawal += 1
    return float(np.inf)


@kernel
def _stop_due(state: State) -> None:
    """Attempts and leases that end now, in order of rows; where both do, the attempt has."""
    world, heap = state.world[0], state.heap
    while world.heap_size > 0 and heap[0].key <= world.now_s:
        job = heap[0].item
        if state.job[job].due_s <= world.now_s:
            reach_target(state, job)
        else:
            requeue(state, job, EXPIRE, True)


@kernel
def _change_servers(state: State) -> None:
    world = state.world[0]
    while world.next_outage < len(state.outages):
        outage = state.outages[world.next_outage]
        if outage.at_s > world.now_s:
            return
        world.next_outage += 1
        tell(state.routine[CHANGE_SERVER], state, outage.server, outage.kind)


@kernel
def _admit_due(state: State) -> None:
    world, jobs = state.world[0], state.job
    while world.next_arrival < len(jobs):
        job = world.next_arrival
        if jobs[job].submit_s > world.now_s:
            return
        world.next_arrival = job + 1
        log_event(state, ARRIVAL, job, 0)
        if jobs[job].waits_for > 0 or jobs[job].doomed != 0:
            jobs[job].status = BLOCKED
            if jobs[job].doomed != 0:
                jobs[job].doomed = 0
                tell(state.routine[WITHDRAW], state, job)
            continue
        jobs[job].status = QUEUED
        queue_insert(state, job)


@kernel
def _withdraw_due(state: State) -> None:
    world = state.world[0]
    while _next_withdrawal_s(state) <= world.now_s:
        job = state.withdrawals[world.next_withdrawal]
        world.next_withdrawal += 1
        tell(state.routine[WITHDRAW], state, job)


@kernel
def observe(state: State) -> None:
    """Refresh what a view shows of running jobs, leaving what finish times are made from."""
    now_s, jobs = state.world[0].now_s, state.job
    for at in range(state.world[0].num_running):
        row = jobs[state.running[at]]
        ahead_s = max(0.0, now_s - row.rated_s)
        row.seen_progress_s = row.progress_s + row.rate * ahead_s
        row.attained_gpu_s = row.served_gpu_s + max(0.0, now_s - row.resume_s) * row.held


@kernel
def advance_instant(state: State) -> int:
    """Let one instant happen: DECIDE if somebody must decide, OVER, STUCK, or -1."""
    world = state.world[0]
    at_s = next_event_s(state)
    if np.isinf(at_s):
        return STUCK if world.num_left > 0 else OVER
    world.now_s = at_s
    _stop_due(state)
    if world.num_left > 0 and world.next_outage < len(state.outages):
        _change_servers(state)
    _admit_due(state)
    if world.next_withdrawal < len(state.withdrawals):
        _withdraw_due(state)
    rerate(state)
    woken = world.wake_s <= at_s
    if woken:
        world.wake_s = np.inf
    return DECIDE if woken or world.num_queued > 0 else -1


@kernel
def advance_until_decision(state: State) -> int:
    """Pop what is due, instant by instant, until somebody must decide."""
    while True:
        verdict = advance_instant(state)
        if verdict == DECIDE:
            observe(state)
        if verdict >= 0:
            return verdict
        if log_half_full(state):
            return FULL
