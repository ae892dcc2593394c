"""Filling a desk's `Shown`: from a view, or in compiled code from the state itself."""

import numpy as np

from sim.jit import kernel
from sim.kernel.layout import State
from sim.linear.desk import Desk
from sim.view import ClusterView


def see(desk: Desk, view: ClusterView) -> None:
    """Copy what the view shows."""
    shown, jobs = desk.shown, view.jobs
    rows = np.concatenate([view.queued, view.running])
    shown.progress_s[rows] = jobs.progress_s[rows]
    shown.partition[rows] = jobs.partition[rows]
    shown.forwards[rows] = jobs.forwards[rows]
    np.copyto(shown.tenants, view.tenants)
    np.copyto(shown.tenant, view.tenant)
    np.copyto(shown.gpu_milli, view.gpu_milli)
    np.copyto(shown.closed, view.server_closed)
    np.copyto(shown.cpu_free_milli, view.server_cpu_free_milli)
    np.copyto(shown.memory_free_mib, view.server_memory_free_mib)
    np.copyto(shown.nic_jobs, view.nic_jobs)
    np.copyto(shown.uplink_jobs, view.uplink_jobs)


@kernel
def see_state(desk: Desk, state: State) -> None:
    """The same without a view."""
    shown, world = desk.shown, state.world[0]
    for i in range(world.queue_first, world.queue_first + world.num_queued):
        _see_job(desk, state, state.queue[i])
    for i in range(world.num_running):
        _see_job(desk, state, state.running[i])
    for gpu in range(len(state.gpu)):
        shown.tenants[gpu] = state.gpu[gpu].tenants
        shown.gpu_milli[gpu] = state.gpu[gpu].milli
        for k in range(state.gpu[gpu].tenants):
            shown.tenant[gpu, k] = state.tenant[gpu, k]
    for server in range(len(state.server)):
        where = state.server[server]
        shown.closed[server] = where.closed
        shown.cpu_free_milli[server] = where.cpu_free_milli
        shown.memory_free_mib[server] = where.memory_free_mib
        shown.nic_jobs[server] = where.nic_jobs
    for rack in range(len(state.rack)):
        shown.uplink_jobs[rack] = state.rack[rack].uplink_jobs


@kernel
def _see_job(desk: Desk, state: State, job: int) -> None:
    row = state.job[job]
    desk.shown.progress_s[job] = row.seen_progress_s
    desk.shown.partition[job] = row.partition
    desk.shown.forwards[job] = row.forwards
