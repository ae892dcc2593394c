"""One coarse row a partition: load, queue, room, and the largest gang placeable now."""

from typing import NamedTuple

import numpy as np

from marl.codec.asks import PARTITION
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel, kernel


class Summary(NamedTuple):
    """M partitions; what a partition tells the others."""

    wanted: FloatArray  # (M,) GPUs that waiting and running jobs want
    up: FloatArray  # (M,) GPUs of servers that are up
    capacity: FloatArray  # (M,) the same, at least 1: what shares are shares of
    queued: FloatArray  # (M,) waiting jobs
    asked: FloatArray  # (M,) GPUs that waiting jobs want
    free: FloatArray  # (M,) empty GPUs
    roomiest: FloatArray  # (M,) most empty GPUs on one server that is not wholly empty
    empty_servers: FloatArray  # (M,) wholly empty servers of the largest size
    largest: FloatArray  # (M,) GPUs of its largest server that is up, at least 1
    largest_gang: int  # that waits or runs anywhere, at least 1


@array_kernel
def summarise(tables: Tables, queued: IntArray, running: IntArray, count: int) -> Summary:
    """Rows of all `count` partitions; a server that is away is not there."""
    jobs = tables.state.job
    rows = np.zeros((8, count))
    wanted, up, waiting, free = rows[0], rows[1], rows[2], rows[3]
    roomiest, empty, largest, asked = rows[4], rows[5], rows[6], rows[7]
    largest[:] = 1.0
    for server in range(len(tables.server_rack)):
        if tables.state.server[server].closed > 0:
            continue
        m = tables.holds[server, PARTITION]
        size = tables.server_first_gpu[server + 1] - tables.server_first_gpu[server]
        largest[m] = max(largest[m], size)
        up[m] += size
    for server in range(len(tables.server_rack)):
        if tables.state.server[server].closed > 0:
            continue
        m = tables.holds[server, PARTITION]
        first, last = tables.server_first_gpu[server], tables.server_first_gpu[server + 1]
        here = 0
        for gpu in range(first, last):
            here += tables.state.gpu[gpu].tenants == 0
        free[m] += here
        if here == last - first and here == largest[m]:
            empty[m] += 1
        else:
            roomiest[m] = max(roomiest[m], here)
    for job in queued:
        wanted[jobs[job].partition] += tables.num_gpus[job]
        waiting[jobs[job].partition] += 1
        asked[jobs[job].partition] += tables.num_gpus[job]
    for job in running:
        wanted[jobs[job].partition] += tables.num_gpus[job]
    capacity, gang = np.maximum(up, 1.0), _largest_gang(tables, queued, running)
    return Summary(wanted, up, capacity, waiting, asked, free, roomiest, empty, largest, gang)


@array_kernel
def _largest_gang(tables: Tables, queued: IntArray, running: IntArray) -> int:
    gang = 1
    for job in queued:
        gang = max(gang, tables.num_gpus[job])
    for job in running:
        gang = max(gang, tables.num_gpus[job])
    return gang


@kernel
def placeable_now(summary: Summary, partition: int, gang: int) -> bool:
    """Whether a compact placement of `gang` on empty GPUs is there now."""
    size = summary.largest[partition]
    whole, rest = gang // size, gang % size
    if gang <= size:
        whole, rest = 0, gang
    empty = summary.empty_servers[partition]
    if empty < whole:
        return False
    return bool(empty > whole or summary.roomiest[partition] >= rest)


@kernel
def largest_gang_now(summary: Summary, partition: int) -> float:
    """Most GPUs a compact placement could have now."""
    whole = summary.empty_servers[partition] * summary.largest[partition]
    return float(whole + summary.roomiest[partition])
