"""The desk at the beginning of a decision, and what a planned start changes on it."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import kernel
from sim.kernel.layout import State
from sim.walk.desk import Desk


@kernel
def _renew(desk: Desk, partition: int) -> None:
    """Forget what was refused there."""
    desk.version[-1] += 1
    desk.version[partition] = desk.version[-1]


@kernel
def _forget_gpu(desk: Desk, gpu: int) -> None:
    """Its tenants are others: what joining it costs is to be worked out anew."""
    if desk.joining.shape[1] > gpu:
        desk.joining[:, gpu] = np.nan


@kernel
def _look_at_gpu(desk: Desk, state: State, gpu: int) -> bool:
    """Copy a GPU's tenants; whether they are others than before."""
    tenants = state.gpu[gpu].tenants
    same = desk.tenants[gpu] == tenants
    for k in range(tenants):
        same = same and desk.tenant[gpu, k] == state.tenant[gpu, k]
        desk.tenant[gpu, k] = state.tenant[gpu, k]
    desk.tenants[gpu] = tenants
    if not same:
        _forget_gpu(desk, gpu)
    return not same


@kernel
def lay_out(desk: Desk, state: State) -> None:
    """Begin with what is there; partitions in which nothing changed keep their versions."""
    yard = desk.yard
    for partition in range(len(yard.first_own) - 1):
        changed = False
        for at in range(yard.first_own[partition], yard.first_own[partition + 1]):
            server = yard.own[at]
            for gpu in range(yard.first_gpu[server], yard.first_gpu[server + 1]):
                changed |= _look_at_gpu(desk, state, gpu)
            changed |= desk.nic_jobs[server] != state.server[server].nic_jobs
            rack = yard.rack[server]
            changed |= desk.uplink_jobs[rack] != state.rack[rack].uplink_jobs
        if changed:
            _renew(desk, partition)
    for server in range(len(state.server)):
        desk.server_free[server] = state.rooms.usable[server]
        desk.nic_jobs[server] = state.server[server].nic_jobs
    for rack in range(len(state.rack)):
        desk.uplink_jobs[rack] = state.rack[rack].uplink_jobs


@kernel
def release(desk: Desk, gpus: IntArray, partition: int) -> None:
    """Take the only tenant of each of `gpus` away."""
    for gpu in gpus:
        desk.tenants[gpu] = 0
        _forget_gpu(desk, gpu)
    _renew(desk, partition)


@kernel
def book(desk: Desk, job: int, gang: int, at: int, partition: int) -> None:
    """Seat `job` on the GPUs written to `desk.gpus` from `at` on."""
    for gpu in desk.gpus[at : at + gang]:
        desk.tenant[gpu, desk.tenants[gpu]] = job
        desk.tenants[gpu] += 1
        _forget_gpu(desk, gpu)
    _renew(desk, partition)
