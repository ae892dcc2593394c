"""What is left of servers for jobs that ask for more than empty GPUs."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray, read_only
from sim.jit import array_kernel
from sim.kernel.layout import UNBOUNDED
from sim.room_rules import workers_for
from sim.traits import ANY_TYPE, WHOLE_GPU_MILLI, Demands
from sim.view import ClusterView


class Ask(NamedTuple):
    """What each worker of one job needs."""

    gpu_milli: int
    cpu_milli: int
    memory_mib: int
    type_mask: int


WHOLE_GPU = Ask(WHOLE_GPU_MILLI, 0, 0, ANY_TYPE)


def ask_of(demands: Demands | None, job: int) -> Ask:
    """What a worker of `job` needs."""
    if demands is None:
        return WHOLE_GPU
    return Ask(
        int(demands.gpu_milli[job]),
        int(demands.cpu_milli[job]),
        int(demands.memory_mib[job]),
        int(demands.type_mask[job]),
    )


class DemandsRoom:
    """Scratch copy of cores, memory and thousandths of GPUs, booked together with the tenants."""

    def __init__(self, view: ClusterView) -> None:
        """Copy what the view shows as free."""
        self._view = view
        self.milli = view.gpu_milli.copy()  # (G,) promised to tenants
        self._cpu_milli = view.server_cpu_free_milli.copy()
        self._memory_mib = view.server_memory_free_mib.copy()

    def copy(self) -> "DemandsRoom":
        """A scratch copy of the scratch copy."""
        twin = DemandsRoom.__new__(DemandsRoom)
        twin._view = self._view
        twin.milli = self.milli.copy()
        twin._cpu_milli = self._cpu_milli.copy()
        twin._memory_mib = self._memory_mib.copy()
        return twin

    def book(self, job: int, gpus: IntArray, sign: int) -> None:
        """Take (`sign` 1) or give back (-1) what `job` needs on `gpus`."""
        ask = ask_of(self._view.jobs.demands, job)
        self.milli[gpus] += sign * ask.gpu_milli
        servers = self._view.topology.gpu_server[gpus]
        np.subtract.at(self._cpu_milli, servers, sign * ask.cpu_milli)
        np.subtract.at(self._memory_mib, servers, sign * ask.memory_mib)

    def workers(self, ask: Ask) -> IntArray:
        """(S,) workers that each server could take now, were its GPUs empty; 0 while it is away."""
        return self._workers(ask, self._cpu_milli, self._memory_mib)

    def most_workers(self, ask: Ask) -> IntArray:
        """(S,) the same if every server that is up were empty."""
        topology = self._view.topology
        boundless = np.full(topology.num_servers, UNBOUNDED)
        cores, memory = topology.server_cpu_milli, topology.server_memory_mib
        cores = boundless if cores is None else cores
        memory = boundless if memory is None else memory
        # As `gpus_per_server` is: one type, compiled once.
        return read_only(self._workers(ask, cores, memory))

    def _workers(self, ask: Ask, cpu_milli: IntArray, memory_mib: IntArray) -> IntArray:
        topology = self._view.topology
        kinds = topology.server_gpu_type.astype(np.int64)
        sizes, closed = topology.gpus_per_server, self._view.server_closed
        # Copies: one type whatever they are made from.
        return _workers_on(
            ask, sizes.astype(np.int64), kinds, closed.copy(), cpu_milli.copy(), memory_mib.copy()
        )


@array_kernel
def _workers_on(
    ask: Ask,
    sizes: IntArray,
    kinds: IntArray,
    closed: IntArray,
    cpu_milli: IntArray,
    memory_mib: IntArray,
) -> IntArray:
    """(S,) `workers_for` of each server; 0 where it is closed."""
    workers = np.zeros(len(sizes), dtype=np.int64)
    for server in range(len(workers)):
        if closed[server] == 0:
            workers[server] = workers_for(
                ask, sizes[server], kinds[server], cpu_milli[server], memory_mib[server]
            )
    return workers
