"""What the list generator reads: the cluster, and the unfinished tasks of all workflows in it."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel, kernel
from sim.physics.communication import Spread, comm_of

PENDING = -1.0  # end of a task that does not run


class Site(NamedTuple):
    """A cluster and what is believed of speeds on it; P profiles, T GPU types."""

    server_type: IntArray  # (S,)
    server_rack: IntArray  # (S,)
    compute_s: FloatArray  # (P, T) of an iteration
    local_s: FloatArray  # (P, ·) communication by most GPUs on one server
    server_s: FloatArray  # (P, ·) by servers
    rack_s: FloatArray  # (P, ·) by racks
    nic_factor: FloatArray  # of others on the links; nobody is expected there
    uplink_factor: FloatArray
    reference_s: FloatArray  # (P, N + 1) iteration of n GPUs on which work is counted


class Tasks(NamedTuple):
    """n tasks, parents before children; times in seconds from now."""

    profile: IntArray  # (n,)
    gang: IntArray  # (n,) GPUs
    kind: IntArray  # (n,) row of `fit`
    work_s: FloatArray  # (n,) predicted, at speed 1; 0 for one that runs
    end_s: FloatArray  # (n,) predicted for one that runs, else PENDING
    workflow: IntArray  # (n,) from 0
    first_parent: IntArray  # (n + 1,)
    parent: IntArray  # (E,) unfinished ones
    first_child: IntArray  # (n + 1,)
    child: IntArray  # (E,)
    fit: IntArray  # (K, S) GPUs of each server that tasks of a kind could ever use


@kernel
def pace(  # noqa: PLR0917  (compiled)
    site: Site, profile: int, gang: int, kind: int, most: int, servers: int, racks: int
) -> float:
    """Seconds that a second of work takes on GPUs of `kind`, so spread."""
    comm = comm_of(site, profile, Spread(most, servers, racks, 1, 1))
    step: float = site.compute_s[profile, kind] + (comm.local_s + comm.server_s) + comm.rack_s
    slow: float = step / site.reference_s[profile, gang]
    return slow


@array_kernel
def mean_lengths_s(site: Site, tasks: Tasks) -> FloatArray:
    """(n,) time of each task, mean over the GPUs that it could use; of one that runs what is left.

    Spread as little as these servers allow.
    """
    length = np.empty(len(tasks.gang))
    for task in range(len(length)):
        if tasks.end_s[task] != PENDING:
            length[task] = tasks.end_s[task]
            continue
        fit, gang = tasks.fit[tasks.kind[task]], tasks.gang[task]
        largest = max(1, fit.max())
        servers, total, gpus = -(-gang // largest), 0.0, 0
        for server in range(len(fit)):
            kind = site.server_type[server]
            here = pace(site, tasks.profile[task], gang, kind, min(gang, largest), servers, 1)
            total += fit[server] * here
            gpus += fit[server]
        length[task] = tasks.work_s[task] * total / max(gpus, 1)
    return length


@array_kernel
def times_to_go_s(tasks: Tasks, length_s: FloatArray) -> FloatArray:
    """(n,) from each task's start to the end of its workflow along the longest way."""
    to_go = length_s.copy()
    for task in range(len(to_go) - 1, -1, -1):
        for edge in range(tasks.first_child[task], tasks.first_child[task + 1]):
            to_go[task] = max(to_go[task], length_s[task] + to_go[tasks.child[edge]])
    return to_go
