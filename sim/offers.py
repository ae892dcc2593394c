"""What servers could give one job while a run went on, by the rules of room of the kernel."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray, Integers
from sim.jit import array_kernel, kernel
from sim.jobs import Ask
from sim.kernel.free_gpus import left_over, workers_for
from sim.kernel.layout import UNBOUNDED
from sim.physics.laws import NO_COST
from sim.topology.topology import Topology


class Held(NamedTuple):
    """C rows, one each time that a GPU gets or loses a holder, in order; G GPUs in S servers."""

    gpu: Integers  # (C,)
    holders: Integers  # (C,) of the GPU afterwards: tenants, and reasons for which it is away
    milli: Integers  # (C,) promised of it afterwards; one that is away is promised whole
    cpu_milli: IntArray  # (C,) left of its server afterwards
    memory_mib: IntArray  # (C,)
    most_tenants: int  # of a GPU
    gpu_server: IntArray  # (G,)
    partition: IntArray  # (S,)
    gpu_type: IntArray  # (S,)
    server_cpu_milli: IntArray  # (S,) of the empty server
    server_memory_mib: IntArray  # (S,)


class Last(NamedTuple):
    """The last rows before some row that changed each GPU (G,) and each server (S,); -1: none."""

    gpu: IntArray
    server: IntArray


def room_of_empty(topology: Topology) -> tuple[IntArray, IntArray]:
    """(S,) cores in thousandths and (S,) MiB of each server; UNBOUNDED where nobody counts."""
    nobody = np.full(topology.num_servers, UNBOUNDED)
    given = topology.server_cpu_milli, topology.server_memory_mib
    cores, memory = (nobody if column is None else column for column in given)
    return cores, memory


@kernel
def _could_have(held: Held, ask: Ask, row: int) -> bool:
    """Whether a worker finds its part of the row's GPU; cores and memory aside."""
    left = left_over(held.holders[row], held.most_tenants, held.milli[row], ask.gpu_milli, False)
    return left < NO_COST


@kernel
def _workers(held: Held, ask: Ask, server: int, row: int, gpus: int) -> int:
    """Workers on so many GPUs of a server, whose cores and memory are as after `row`."""
    cores, memory = held.server_cpu_milli[server], held.server_memory_mib[server]
    if row >= 0:
        cores, memory = held.cpu_milli[row], held.memory_mib[row]
    return workers_for(ask, gpus, held.gpu_type[server], cores, memory)


@array_kernel
def usable_gpus(held: Held, ask: Ask, home: int, rows: tuple[int, int], last: Last) -> IntArray:
    """(n + 1,) GPUs of a partition that workers could have: before the first of n rows, after each.

    Args:
        held: who held what.
        ask: of each worker.
        home: the partition.
        rows: the first one, and the one behind the last.
        last: what had changed before the first one.
    """
    could = np.ones(len(last.gpu), dtype=np.bool_)
    gpus = np.zeros(len(last.server), dtype=np.int64)
    workers = np.zeros(len(last.server), dtype=np.int64)
    for gpu, row in enumerate(last.gpu):  # no row: nobody has had it yet, and it is free
        if row >= 0:
            could[gpu] = _could_have(held, ask, row)
        gpus[held.gpu_server[gpu]] += could[gpu]
    for server, row in enumerate(last.server):  # only once all its GPUs are counted
        if held.partition[server] == home:
            workers[server] = _workers(held, ask, server, row, gpus[server])
    found = np.empty(rows[1] - rows[0] + 1, dtype=np.int64)
    found[0] = workers.sum()
    for at in range(1, len(found)):  # a row changes one server: no recount of all
        row = rows[0] + at - 1
        gpu = held.gpu[row]
        server = held.gpu_server[gpu]
        found[at] = found[at - 1]
        if held.partition[server] == home:
            gpus[server] -= could[gpu]
            could[gpu] = _could_have(held, ask, row)
            gpus[server] += could[gpu]
            before = workers[server]
            workers[server] = _workers(held, ask, server, row, gpus[server])
            found[at] += workers[server] - before
    return found
