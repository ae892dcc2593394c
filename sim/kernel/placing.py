"""What a run books when a job takes or gives back its GPUs: spread, links, hosts, speeds, times."""

import numpy as np

from sim.jit import kernel
from sim.kernel.allocation import occupy, vacate
from sim.kernel.layout import ENTER_LINKS, LEAVE_LINKS, RUNNING, State
from sim.kernel.rates import accrue, mark_dirty, mark_neighbours
from sim.kernel.records import heap_remove
from sim.routine import tell


@kernel
def load_host(state: State, job: int, workers: int) -> None:
    """Count the job's GPUs in (`workers` 1) or out (-1), and mark whom that slows or speeds up."""
    row, gpus = state.job[job], state.gpu
    for at in range(row.first, row.first + row.held):
        where = state.server[gpus[state.placed[at]].server]
        where.busy_milli += workers * row.busy_milli
        where.moved_mbs += workers * row.moved_mbs
    for at in range(row.first, row.first + row.held):
        _settle(state, gpus[state.placed[at]].server)


@kernel
def _settle(state: State, server: int) -> None:
    where = state.server[server]
    stretch = max(1.0, where.busy_milli / where.host_milli, where.moved_mbs / where.host_mbs)
    if stretch == where.stretch:
        return
    where.stretch = stretch
    for gpu in range(where.first_gpu, where.last_gpu):
        for k in range(state.gpu[gpu].tenants):
            mark_dirty(state, state.tenant[gpu, k])


@kernel
def _measure_spread(state: State, job: int) -> None:
    """Fill local, servers and racks of a gang's placement."""
    row, world, gpus = state.job[job], state.world[0], state.gpu
    world.token += 1
    token = world.token
    servers, racks, most = 0, 0, 0
    for at in range(row.first, row.first + row.held):
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
    for at in range(row.first, row.first + row.held):
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
