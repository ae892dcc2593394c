"""How a job stops: done, failed, pushed off its GPUs, given up, or its server went away."""

import numpy as np

from sim.jit import kernel
from sim.kernel import records
from sim.kernel.allocation import note_release
from sim.kernel.free_gpus import set_most, set_usable
from sim.kernel.layout import (
    BLOCKED,
    CLOSES,
    FINISHED,
    FREE_CHILDREN,
    OPENS,
    PENDING,
    QUEUED,
    RUNNING,
    WITHDRAW,
    WITHDRAWN,
    State,
)
from sim.kernel.placing import end_run
from sim.kernel.rates import accrue
from sim.kernel.records import (
    EVICT,
    FAIL,
    FINISH,
    READY,
    SERVER_DOWN,
    SERVER_UP,
    log_event,
    log_server,
    queue_insert,
    queue_remove,
)
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
    log_event(state, records.WITHDRAW, job, held)


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


@kernel
def change_server(state: State, server: int, kind: int) -> None:
    """Fail, close or open one server; those on a failing one lose work since their checkpoint."""
    row, gpus = state.server[server], state.gpu
    if kind == OPENS:
        row.closed -= 1
        if row.closed == 0:
            open_server(state, server)
            log_server(state, SERVER_UP, server)
        return
    row.closed += 1
    if row.closed > 1:
        return
    log_server(state, SERVER_DOWN, server)
    _close_server(state, server)
    for gpu in range(row.first_gpu, row.last_gpu):
        while gpus[gpu].tenants > 0:
            requeue(state, state.tenant[gpu, 0], EVICT, kind == CLOSES)


@kernel
def open_server(state: State, server: int) -> None:
    """An empty server is there: all its GPUs are usable."""
    row, free_gpus = state.server[server], state.free_gpus
    for gpu in range(row.first_gpu, row.last_gpu):
        free_gpus.gpu[gpu] = True
    set_most(free_gpus, row.partition, server, row.last_gpu - row.first_gpu)
    set_usable(free_gpus, row.partition, server, row.last_gpu - row.first_gpu)
    note_release(state, row.partition)


@kernel
def cordon(state: State, server: int) -> None:
    """Close a server to newcomers: those on it stay. For who sets up a state (`sim.simulator`)."""
    state.server[server].closed += 1
    _close_server(state, server)


@kernel
def _close_server(state: State, server: int) -> None:
    """None of its GPUs is usable; what had no room may have some: the largest server is another."""
    row, free_gpus = state.server[server], state.free_gpus
    for gpu in range(row.first_gpu, row.last_gpu):
        free_gpus.gpu[gpu] = False
    set_most(free_gpus, row.partition, server, 0)
    set_usable(free_gpus, row.partition, server, 0)
    note_release(state, row.partition)
