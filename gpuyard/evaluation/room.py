"""Jobs that no partition has room for, even when it is empty."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from gpuyard.launch.errors import ConfigError
from marl.env.game import Game
from sim.arrays import BoolArray, IntArray
from sim.jobs import Attempts, JobTable, Precedence
from sim.traces.trace import picked_column

MIB_PER_GIB = 1024.0
MILLI = 1000.0


def without_misfits(jobs: JobTable, game: Game, *, leave_out: bool) -> tuple[JobTable, int]:
    """The jobs that fit somewhere, and how many do not.

    Raises:
        ConfigError: some do not and may not be left out, or none does.
    """
    fits = fit_somewhere(jobs, game)
    if fits.all():
        return jobs, 0
    misfits = int((~fits).sum())
    if not fits.any():
        raise ConfigError(f"{misfits_told(jobs, fits, game)}; no job would be left")
    if not leave_out:
        raise ConfigError(
            f"{misfits_told(jobs, fits, game)}; leave_out=true leaves such jobs out, "
            f"'workload.rules.ignore=[demands]' forgets what jobs ask for beside GPUs"
        )
    return picked_jobs(jobs, np.flatnonzero(fits)), misfits


def fit_somewhere(jobs: JobTable, game: Game) -> BoolArray:
    """(J,) whether the empty servers of some partition hold all workers of the job."""
    topology = game.topology
    gpus = topology.gpus_per_server
    if jobs.demands is None:
        most = np.bincount(game.partition_of_server, weights=gpus).max()
        return jobs.num_gpus <= most
    asks, kind = np.unique(
        np.stack([jobs.demands.cpu_milli, jobs.demands.memory_mib, jobs.demands.type_mask], axis=1),
        axis=0,
        return_inverse=True,
    )
    room = np.array([most_workers(ask, game) for ask in asks.tolist()], dtype=np.float64)
    fits: BoolArray = jobs.num_gpus <= room[kind.ravel()]
    return fits


def most_workers(ask: Sequence[int], game: Game) -> float:
    """Of one kind of worker, in the partition that holds most of them.

    Args:
        ask: thousandths of a core, MiB, and bits of GPU types.
        game: whose servers are empty.
    """
    topology, (cpu, memory, mask) = game.topology, ask
    workers = np.where((mask >> topology.server_gpu_type) & 1, topology.gpus_per_server, 0.0)
    for each, has in ((cpu, topology.server_cpu_milli), (memory, topology.server_memory_mib)):
        if each > 0 and has is not None:
            workers = np.minimum(workers, has // each)
    return float(np.bincount(game.partition_of_server, weights=workers).max())


def picked_jobs(jobs: JobTable, rows: IntArray, **changed: Any) -> JobTable:
    """The jobs at `rows` with all they have but `changed` columns; links to others are dropped."""
    columns = {}
    for each in fields(jobs):
        column = getattr(jobs, each.name)
        whole = column is None or isinstance(column, np.ndarray | Attempts | Precedence)
        columns[each.name] = picked_column(column, rows) if whole else column.take(rows)
    return JobTable(**{**columns, **changed})


def misfits_told(jobs: JobTable, fits: BoolArray, game: Game) -> str:
    """How many jobs have no room, and what the first of them asks for."""
    row = int(np.argmin(fits))
    asks = f"{jobs.num_gpus[row]} GPUs"
    if jobs.demands is not None:
        cores = jobs.demands.cpu_milli[row] / MILLI
        gib = jobs.demands.memory_mib[row] / MIB_PER_GIB
        types = _types(int(jobs.demands.type_mask[row]), game.topology.gpu_types)
        asks += f", each with {cores:g} cores, {gib:g} GiB and type {types}"
    where = "" if game.partitions == 1 else f" in one of {game.partitions} partitions"
    return (
        f"{int((~fits).sum())} of {len(jobs)} jobs fit nowhere on {game.topology.name}{where}, "
        f"even when it is empty; the first is job {jobs.job_id[row]}: {asks}"
    )


def _types(mask: int, names: tuple[str, ...]) -> str:
    allowed = [name for at, name in enumerate(names) if (mask >> at) & 1]
    if len(allowed) == len(names):
        return "any"
    return " or ".join(allowed) or "of another cluster"
