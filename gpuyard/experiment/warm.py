"""Compile the kernels on a tiny trace, so that no measured time contains a compiler."""

from dataclasses import replace

import numpy as np

from marl.env.game import Game
from sim.arrays import IntArray
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.simulator import simulate
from sim.topology.outages import NO_OUTAGES


def warm_up(game: Game, scheduler: Scheduler, *, compiled: bool = True) -> None:
    """Run a few jobs through `scheduler`, or its compiled form, on this cluster, and forget them.

    They reach what a real trace reaches: gangs inside a server and across servers, a full cluster
    with a queue (so that jobs share, wait, are preempted, forwarded or taken over), every
    partition, and an empty one at the end.
    """
    gangs = _gangs(game)
    count = len(gangs)
    profile = int(np.argmax(game.physics.catalogue.gang_ok))
    duration_s = np.linspace(20.0, 10.0, count)  # later jobs are shorter: they may preempt
    jobs = JobTable(
        job_id=np.array([str(row) for row in range(count)], dtype=object),
        submit_s=np.arange(count, dtype=np.float64),
        num_gpus=gangs,
        duration_s=duration_s,
        estimate_s=duration_s,
        profile=np.full(count, profile, dtype=np.int64),
        home=np.arange(count, dtype=np.int64) % game.partitions,
        measured=np.ones(count, dtype=np.bool_),
    )
    whole = replace(game, outages=NO_OUTAGES)  # a gang may need every server
    simulate(whole.simulator(jobs), scheduler, 0, None, compiled=compiled)


def _gangs(game: Game) -> IntArray:
    """Small, one server and a little more, then whole partitions until nothing is left."""
    servers = np.bincount(game.topology.gpu_server)  # (S,) GPUs
    partitions = np.bincount(game.partition_of_server, weights=servers)  # (P,) GPUs
    largest, server = int(partitions.min()), int(servers.max())  # every gang fits every partition
    fill = [largest] * (game.rules.max_tenants * game.partitions + 1)
    small = [min(gang, largest) for gang in (1, 2, server, server + 1, 1, 2)]
    return np.array([*small, *fill, 1, 2], dtype=np.int64)
