"""How a job stops: done, failed, pushed off its GPUs, or given up."""

import numpy as np

from sim.jit import kernel
from sim.kernel import log
from sim.kernel.layout import (
    BLOCKED,
    FINISHED,
    FREE_CHILDREN,
    PENDING,
    QUEUED,
    RUNNING,
    WITHDRAW,
    WITHDRAWN,
    State,
)
from sim.kernel.log import EVICT, FAIL, FINISH, READY, log_event
from sim.kernel.placing import end_run
from sim.kernel.queue import queue_insert, queue_remove
from sim.kernel.rates import accrue
from sim.routine import tell


@kernel
def _next_target_s(state: State, job: int) -> float:
    row = state.job[job]
    if row.next_attempt < row.last_attempt:
        return float(state.fail_at_s[row.next_attempt])
    return float(row.work_s)


@kernel
def requeue(state: State, job: int, kind: int, keeps_work: bool) -> None:
    """Push a running job off its GPUs, back into the queue.

    Work since its last checkpoint is lost unless it `keeps_work` (it writes one as it goes).
    Only a job stopped by order or by its lease, its work kept, may be renewed at this instant.
    """
    row, world = state.job[job], state.world[0]
    end_run(state, job, QUEUED)
    if not keeps_work or kind in (FAIL, EVICT):
        row.left_s = -np.inf
    if keeps_work:
        row.saved_s = row.progress_s
    else:
        if np.isfinite(world.checkpoint_work_s):
            written_s = np.floor(row.progress_s / world.checkpoint_work_s)
            written_s = min(written_s * world.checkpoint_work_s, row.progress_s)
            row.saved_s = max(row.saved_s, written_s)
        row.lost_s += row.progress_s - row.saved_s
        row.progress_s = row.saved_s
    row.restarts += 1
    row.seen_progress_s = row.progress_s
    row.attained_gpu_s = row.served_gpu_s
    queue_insert(state, job)
    log_event(state, kind, job, row.held)


@kernel
def withdraw(state: State, job: int) -> None:
    """Let a job leave for good, whatever it does, and its descendants with it."""
    state.scratch[0] = job
    done, found = 0, 1
    while done < found:
        row = state.job[state.scratch[done]]
        gone = state.scratch[done]
        done += 1
        if row.status in (FINISHED, WITHDRAWN) or row.doomed != 0:
            continue
        if row.status == PENDING:
            row.doomed = 1  # it leaves when it is submitted
        else:
            _leave(state, gone)
        for child in range(row.first_child, row.last_child):
            state.scratch[found] = state.children[child]
            found += 1


@kernel
def _leave(state: State, job: int) -> None:
    row, world = state.job[job], state.world[0]
    held = 0
    if row.status == RUNNING:
        end_run(state, job, WITHDRAWN)
        held = row.held
    elif row.status == QUEUED:
        queue_remove(state, job)
    row.status = WITHDRAWN
    row.finish_s = world.now_s
    world.num_left -= 1
    log_event(state, log.WITHDRAW, job, held)


@kernel
def free_children(state: State, job: int) -> None:
    """Tell the children of a finished job; those that waited for it alone are ready."""
    row = state.job[job]
    for at in range(row.first_child, row.last_child):
        child = state.children[at]
        if row.outcome != 0:
            tell(state.routine[WITHDRAW], state, child)
            continue
        state.job[child].waits_for -= 1
        if state.job[child].waits_for == 0 and state.job[child].status == BLOCKED:
            state.job[child].status = QUEUED
            queue_insert(state, child)
            log_event(state, READY, child, 0)


@kernel
def reach_target(state: State, job: int) -> None:
    """A running job got to the end of its attempt: it finishes, or fails and queues again."""
    row, world = state.job[job], state.world[0]
    if row.next_attempt < row.last_attempt:
        row.next_attempt += 1
        accrue(state, job)
        row.progress_s = row.target_s
        requeue(state, job, FAIL, True)
        row.target_s = _next_target_s(state, job)
        return
    end_run(state, job, FINISHED)
    row.progress_s = row.work_s
    row.finish_s = world.now_s
    world.num_left -= 1
    log_event(state, FINISH, job, row.held)
    if row.last_child > row.first_child:
        tell(state.routine[FREE_CHILDREN], state, job)
