"""How a job takes its GPUs, and how it stops: done, failed, pushed off, given up, server gone.

What a run books at either: spread, links, hosts, speeds, times.

"""

import numpy as np

from sim.handle import tell
from sim.jit import kernel
from sim.kernel import records
from sim.kernel.allocation import note_release, occupy, vacate
from sim.kernel.free_gpus import set_most, set_usable
from sim.kernel.layout import (
    BLOCKED,
    CLOSES,
    ENTER_LINKS,
    FINISHED,
    FREE_CHILDREN,
    LEAVE_LINKS,
    OPENS,
    PENDING,
    QUEUED,
    RUNNING,
    WITHDRAW,
    WITHDRAWN,
    State,
)
from sim.kernel.rates import accrue, mark_dirty, mark_neighbours
from sim.kernel.records import (
    EVICT,
    FAIL,
    FINISH,
    READY,
    SERVER_DOWN,
    SERVER_UP,
    heap_remove,
    log_event,
    log_server,
    queue_insert,
    queue_remove,
)


@kernel
def load_host(state: State, job: int, workers: int) -> None:
    """Count the job's GPUs in (`workers` 1) or out (-1), and mark whom that slows or speeds up."""
    row, gpus = state.job[job], state.gpu
    for at in range(row.first, row.first + row.held):  # all are counted before any server settles
        where = state.server[gpus[state.placed[at]].server]
        where.busy_milli += workers * row.busy_milli
        where.moved_mbs += workers * row.moved_mbs
    for at in range(row.first, row.first + row.held):  # a server that comes up again has settled
        _settle(state, gpus[state.placed[at]].server)


@kernel
def _settle(state: State, server: int) -> None:
    where = state.server[server]
    stretch = max(1.0, where.busy_milli / where.host_milli, where.moved_mbs / where.host_mbs)
    if stretch == where.stretch:
        return
    where.stretch = stretch
    for gpu in range(where.first_gpu, where.last_gpu):  # all on the server share its cores and PCIe
        for k in range(state.gpu[gpu].tenants):  # a gang comes up on several GPUs: marked once
            mark_dirty(state, state.tenant[gpu, k])


@kernel
def _measure_spread(state: State, job: int) -> None:
    """Fill local, servers and racks of a gang's placement."""
    row, world, gpus = state.job[job], state.world[0], state.gpu
    world.token += 1
    token = world.token
    servers, racks, most = 0, 0, 0
    for at in range(row.first, row.first + row.held):  # stamps: GPUs may be named in any order
        server = state.server[gpus[state.placed[at]].server]
        if server.stamp != token:
            server.stamp = token
            server.count = 0
            servers += 1
            if state.rack[server.rack].stamp != token:
                state.rack[server.rack].stamp = token
                racks += 1
        server.count += 1
        most = max(most, server.count)
    row.local, row.servers, row.racks = most, servers, racks


@kernel
def _count_links(state: State, job: int, change: int) -> None:
    """Add `change` to the NICs (uplinks) of a job that spans servers (racks), once each."""
    row, world, gpus = state.job[job], state.world[0], state.gpu
    world.token += 1
    token = world.token
    for at in range(row.first, row.first + row.held):  # stamps, as its GPUs may be in any order
        server = state.server[gpus[state.placed[at]].server]
        if server.stamp == token:
            continue
        server.stamp = token
        server.nic_jobs += change
        rack = state.rack[server.rack]
        if row.racks > 1 and rack.stamp != token:
            rack.stamp = token
            rack.uplink_jobs += change
    if row.racks > 1:
        world.uplink_changes += 1


@kernel
def _begin(state: State, job: int, renewal: bool, lease_end_s: float) -> None:
    row, world = state.job[job], state.world[0]
    now_s = world.now_s
    row.running_at = world.num_running
    state.running[world.num_running] = job
    world.num_running += 1
    row.status = RUNNING
    row.rate = 0.0  # rerate gives the real one; 0 is never a job's rate
    if renewal:
        row.resume_s = max(now_s, row.resume_s)
        row.restarts -= 1  # it never lost them
    elif row.restarts > 0:
        row.resume_s = now_s + (world.restart_s + world.restart_s_per_gpu * row.held)
    else:
        row.resume_s = now_s
    row.rated_s = row.resume_s
    row.lease_end_s = lease_end_s
    row.started_s = now_s
    if np.isnan(row.first_start_s):
        row.first_start_s = now_s
    mark_dirty(state, job)


@kernel
def begin_run(state: State, job: int, gpus: int, renewal: bool, lease_end_s: float) -> None:
    """Let `job` run on the first `gpus` GPUs of its row in `placed`; the caller has checked them.

    A `renewal` is a start where it was at this very instant: it goes on as if never stopped.
    """
    row = state.job[job]
    if gpus != row.held:
        row.held = gpus
        row.reference_step_s = state.physics.reference_step_s[row.profile, gpus]
        gain = state.physics.gain
        row.gain = gain[row.profile, gpus] / gain[row.profile, row.num_gpus]
    occupy(state, job, state.placed[row.first : row.first + row.held])
    if gpus == 1:
        row.local, row.servers, row.racks = 1, 1, 1
    else:
        _measure_spread(state, job)
        if row.servers > 1:
            _count_links(state, job, 1)
    if state.world[0].shared_links != 0:
        tell(state.routine[ENTER_LINKS], state, job)
    if state.world[0].host_matters != 0:
        load_host(state, job, 1)
    mark_neighbours(state, job)
    _begin(state, job, renewal, lease_end_s)


@kernel
def end_run(state: State, job: int, status: int) -> None:
    """Take `job` off its GPUs with its work booked; its new status is `status`."""
    accrue(state, job)
    row, world = state.job[job], state.world[0]
    now_s = world.now_s
    row.status = status
    row.run_s += now_s - row.started_s
    row.run_gpu_s += (now_s - row.started_s) * row.held
    row.served_gpu_s += max(0.0, now_s - row.resume_s) * row.held
    row.attained_gpu_s = row.served_gpu_s
    row.left_s = now_s
    vacate(state, job, state.placed[row.first : row.first + row.held])
    if row.servers > 1:
        _count_links(state, job, -1)
        if world.shared_links != 0:
            tell(state.routine[LEAVE_LINKS], state, job)
    if world.host_matters != 0:
        load_host(state, job, -1)
    mark_neighbours(state, job)
    last = world.num_running - 1
    moved = state.running[last]
    state.running[row.running_at] = moved
    state.job[moved].running_at = row.running_at
    world.num_running = last
    heap_remove(state, job)


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
    queue_insert(state, job)
    log_event(state, kind, job, row.held)


@kernel
def withdraw(state: State, job: int) -> None:
    """Let a job leave for good, whatever it does, and its descendants with it."""
    state.scratch[0] = job
    done, found = 0, 1
    while done < found:  # by level; a job is expanded once, so `scratch` is long enough
        row = state.job[state.scratch[done]]
        gone = state.scratch[done]
        done += 1
        if row.status in (FINISHED, WITHDRAWN) or row.doomed != 0:
            continue
        if row.status == PENDING:
            row.doomed = 1  # it leaves when it is submitted
        else:
            _leave(state, gone)
        for child in range(row.first_child, row.last_child):  # ascending rows, as they are logged
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
    for at in range(row.first_child, row.last_child):  # by row, in which order the log tells them
        child = state.children[at]
        if row.outcome != 0:
            tell(state.routine[WITHDRAW], state, child)
            continue
        state.job[child].waits_for -= 1
        if state.job[child].waits_for == 0 and state.job[child].status == BLOCKED:
            state.job[child].status = QUEUED
            state.job[child].ready_s = state.world[0].ready_s = state.world[0].now_s
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
            set_open(state, server, True)
            log_server(state, SERVER_UP, server)
        return
    row.closed += 1
    if row.closed > 1:
        return
    log_server(state, SERVER_DOWN, server)
    set_open(state, server, False)
    for gpu in range(row.first_gpu, row.last_gpu):  # by id: the order in which jobs are evicted
        while gpus[gpu].tenants > 0:  # the first in order of start; a gang leaves all its GPUs
            requeue(state, state.tenant[gpu, 0], EVICT, kind == CLOSES)


@kernel
def set_open(state: State, server: int, is_open: bool) -> None:
    """All GPUs of an empty server are usable, or none of one that goes away.

    Either way what had no room may have some: the largest server is another.
    """
    row, free_gpus = state.server[server], state.free_gpus
    usable = row.last_gpu - row.first_gpu if is_open else 0
    for gpu in range(row.first_gpu, row.last_gpu):
        free_gpus.gpu[gpu] = is_open
    set_most(free_gpus, row.partition, server, usable)
    set_usable(free_gpus, row.partition, server, usable)
    note_release(state, row.partition)


@kernel
def cordon(state: State, server: int) -> None:
    """Close a server to newcomers: those on it stay. For who sets up a state (`sim.simulator`)."""
    state.server[server].closed += 1
    set_open(state, server, False)
