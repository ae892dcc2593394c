"""Whose a job is, and what part of the cluster's GPUs, cores and memory its owner holds."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.occupancy import Occupancy
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView, JobColumns

OWNER_KINDS = 3  # users, virtual clusters, jobs of nobody known
RESOURCES = 3  # GPUs, cores, memory


def owners_of(jobs: JobColumns, rows: IntArray) -> IntArray:
    """(n,) owner of each job: its user, else its virtual cluster, else the job itself."""
    alone: IntArray = OWNER_KINDS * rows + 2
    if jobs.identity is None:
        return alone
    user, vc = jobs.identity.user[rows], jobs.identity.vc[rows]
    shared: IntArray = np.where(vc >= 0, OWNER_KINDS * vc + 1, alone)
    return np.where(user >= 0, OWNER_KINDS * user, shared)


def worker_shares(view: ClusterView, rows: IntArray) -> FloatArray:
    """(n, 3) what one worker of each job takes, as fractions of the GPUs, cores and memory.

    Of all servers that the view owns, whether they are up or not. A resource that the cluster does
    not count is never short: its fraction is 0.
    """
    topology, servers = view.topology, view.servers
    gpus_milli = WHOLE_GPU_MILLI * int(topology.gpus_per_server[servers].sum())
    demands = view.jobs.demands
    if demands is None:
        return np.tile([WHOLE_GPU_MILLI / max(gpus_milli, 1), 0.0, 0.0], (len(rows), 1))
    columns = (
        (demands.gpu_milli, gpus_milli),
        (demands.cpu_milli, _total(topology.server_cpu_milli, servers)),
        (demands.memory_mib, _total(topology.server_memory_mib, servers)),
    )
    return np.stack([asked[rows] / most if most > 0 else 0.0 * rows for asked, most in columns], 1)


def _total(room: IntArray | None, servers: IntArray) -> float:
    """What the servers have together; 0 where it is not counted."""
    if room is None:
        return 0.0
    return float(room[servers].sum(dtype=np.float64))


def held_shares(view: ClusterView, occupancy: Occupancy, owners: IntArray) -> FloatArray:
    """(u, 3) fractions of GPUs, cores and memory that each of `owners` (ascending) holds now.

    As booked in `occupancy`, on the servers that the view owns.
    """
    mine = np.zeros(view.topology.num_servers, dtype=np.bool_)
    mine[view.servers] = True
    tenant = occupancy.tenant[mine[view.topology.gpu_server]]
    workers = tenant[tenant >= 0]  # one entry for each worker: the row of its job
    owner = owners_of(view.jobs, workers)
    at = np.minimum(np.searchsorted(owners, owner), len(owners) - 1)
    waits = owners[at] == owner  # owners of whom nobody waits do not matter
    held = np.zeros((len(owners), RESOURCES))
    np.add.at(held, at[waits], worker_shares(view, workers[waits]))
    return held
