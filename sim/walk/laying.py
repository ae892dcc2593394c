"""The desk at the beginning of a decision, and what a planned start changes on it."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import array_kernel
from sim.walk.desk import Desk


@array_kernel
def _renew(desk: Desk, partition: int) -> None:
    """Forget what was refused there."""
    desk.version[-1] += 1
    desk.version[partition] = desk.version[-1]


@array_kernel
def _forget_gpu(desk: Desk, gpu: int) -> None:
    """Its tenants are others: what joining it costs is to be worked out anew."""
    if desk.joining.shape[1] > gpu:
        desk.joining[:, gpu] = np.nan


@array_kernel
def _look_at_gpu(desk: Desk, gpu: int, tenants: int, tenant: IntArray) -> bool:
    """Copy a GPU's tenants; whether they are others than before."""
    same = desk.tenants[gpu] == tenants
    for k in range(len(tenant)):
        same = same and desk.tenant[gpu, k] == tenant[k]
        desk.tenant[gpu, k] = tenant[k]
    desk.tenants[gpu] = tenants
    if not same:
        _forget_gpu(desk, gpu)
    return not same


@array_kernel
def lay_out(
    desk: Desk,
    tenants: IntArray,  # (G,)
    tenant: IntArray,  # (G, C)
    nic_jobs: IntArray,  # (S,)
    uplink_jobs: IntArray,  # (R,)
) -> None:
    """Begin with what is there; partitions in which nothing changed keep their versions."""
    yard = desk.yard
    for partition in range(len(yard.first_own) - 1):
        changed = False
        for server in yard.own[yard.first_own[partition] : yard.first_own[partition + 1]]:
            for gpu in range(yard.first_gpu[server], yard.first_gpu[server + 1]):
                changed |= _look_at_gpu(desk, gpu, tenants[gpu], tenant[gpu])
            changed |= desk.nic_jobs[server] != nic_jobs[server]
            rack = yard.rack[server]
            changed |= desk.uplink_jobs[rack] != uplink_jobs[rack]
        if changed:
            _renew(desk, partition)
    desk.nic_jobs[:] = nic_jobs
    desk.uplink_jobs[:] = uplink_jobs


@array_kernel
def book(desk: Desk, job: int, gang: int, at: int, partition: int) -> None:
    """Seat `job` on the GPUs written to `desk.gpus` from `at` on."""
    for gpu in desk.gpus[at : at + gang]:
        desk.tenant[gpu, desk.tenants[gpu]] = job
        desk.tenants[gpu] += 1
        _forget_gpu(desk, gpu)
    _renew(desk, partition)
