"""Where one job fits: compactly now, or once jobs have left servers that are up."""

from typing import NamedTuple

import numpy as np

from marl.codec.asks import MORE, PARTITION
from marl.codec.room import workers_ever, workers_now
from marl.codec.summary import Summary, placeable_now
from marl.codec.tables import Tables
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel


class Fit(NamedTuple):
    """M partitions, for one job."""

    most: FloatArray  # (M,) workers that its servers that are up could take, were they empty
    compact: BoolArray  # (M,) whether a compact placement on empty GPUs is there now
    fewest: FloatArray  # (M,) servers of a compact placement


@array_kernel
def _fit_asking(tables: Tables, job: int, count: int) -> Fit:
    """For a job that asks for more than GPUs: servers are filled from the roomiest on."""
    gang, servers = tables.num_gpus[job], len(tables.server_rack)
    most, fewest = np.zeros(count), np.zeros(count)
    compact = np.zeros(count, dtype=np.bool_)
    ever, now = np.zeros(servers, dtype=np.int64), np.zeros(servers, dtype=np.int64)
    for server in range(servers):
        if tables.state.server[server].closed > 0:
            continue
        empty = 0
        for gpu in range(tables.server_first_gpu[server], tables.server_first_gpu[server + 1]):
            empty += tables.state.gpu[gpu].tenants == 0
        ever[server] = workers_ever(tables, job, server)
        now[server] = min(empty, workers_now(tables, job, server))
    for m in range(count):
        here = tables.holds[:, PARTITION] == m
        roomiest, emptiest = np.sort(ever[here])[::-1], np.sort(now[here])[::-1]
        most[m] = roomiest.sum()
        held, needed = 0, 0
        while needed < len(roomiest) and held < gang:
            held += roomiest[needed]
            needed += 1
        fewest[m] = needed
        compact[m] = held >= gang and emptiest[:needed].sum() >= gang
    return Fit(most, compact, fewest)


@array_kernel
def fit_of(tables: Tables, summary: Summary, job: int) -> Fit:
    """Where `job` fits; for one that asks for whole GPUs only, by the partitions' rows."""
    count, gang = len(summary.up), tables.num_gpus[job]
    if tables.asks[job, MORE] != 0:
        return _fit_asking(tables, job, count)
    compact = np.zeros(count, dtype=np.bool_)
    for m in range(count):
        compact[m] = placeable_now(summary, m, gang)
    return Fit(summary.up, compact, np.ceil(gang / summary.largest))


@array_kernel
def awaits_servers(tables: Tables, servers: IntArray, jobs: IntArray) -> BoolArray:
    """(len(jobs),) whether a job fits on `servers`, but not without those that are away."""
    awaits = np.zeros(len(jobs), dtype=np.bool_)
    for i in range(len(jobs)):
        up, ever = 0, 0
        for server in servers:
            workers = workers_ever(tables, jobs[i], server)
            ever += workers
            up += workers if tables.state.server[server].closed == 0 else 0
        awaits[i] = up < tables.num_gpus[jobs[i]] <= ever
    return awaits
