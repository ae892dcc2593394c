"""Partitions as the file has them: each virtual cluster's jobs arrive at one partition."""

import numpy as np

from gpuyard.launch.errors import ConfigError
from marl.env.game import Game
from sim.arrays import IntArray
from sim.jobs import JobTable
from sim.traces.trace import Trace

DRAWN, BY_VC = "drawn", "vc"
HOMES = (DRAWN, BY_VC)


def homes_by_vc(jobs: JobTable, game: Game, trace: Trace | None) -> IntArray:
    """(J,) the partition of each job's virtual cluster.

    A virtual cluster that is a group of servers is at the partition of that group. The others are
    dealt out, from the one with most work to the one with least, each to the partition with least
    work for its GPUs so far.

    Raises:
        ConfigError: the jobs name no virtual cluster.
    """
    if trace is None or not any(trace.vc):
        raise ConfigError(
            "homes is vc, and no job names its virtual cluster; map the column (Partition of "
            "sacct, workload.columns.vc of a CSV), or set homes=drawn"
        )
    names, vc = np.unique(trace.vc.astype(str), return_inverse=True)
    work = np.bincount(vc, weights=jobs.num_gpus * jobs.duration_s)
    servers = game.partition_of_server
    gpus = np.bincount(servers, weights=game.topology.gpus_per_server)
    groups = game.topology.server_group
    at = {} if groups is None else dict(zip(groups.tolist(), servers.tolist(), strict=True))
    home = np.array([at.get(name, -1) for name in names], dtype=np.int64)
    held = np.bincount(home[home >= 0], weights=work[home >= 0], minlength=game.partitions)
    for each in np.argsort(-work, kind="stable"):
        if home[each] < 0:
            home[each] = int(np.argmin(held / gpus))
            held[home[each]] += work[each]
    found: IntArray = home[vc]
    return found
