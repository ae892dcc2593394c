"""What is left of servers for jobs that ask for more than empty GPUs."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray, read_only
from sim.traits import ANY_TYPE, WHOLE_GPU_MILLI, Demands
from sim.view import ClusterView

PLENTY = 2**31  # workers; more than any server has GPUs


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
        """(S,) workers that cores, memory, type and absence still allow on each server."""
        return np.where(
            self._allowed(ask), _share(ask, self._cpu_milli, self._memory_mib), 0
        ).astype(np.int64)

    def most_workers(self, ask: Ask) -> IntArray:
        """(S,) the same if every server that is up were empty."""
        topology = self._view.topology
        size = topology.gpus_per_server
        cores, memory = topology.server_cpu_milli, topology.server_memory_mib
        share = _share(ask, cores, memory)
        most = np.where(self._allowed(ask), np.minimum(size, share), 0).astype(np.int64)
        return read_only(most)  # as `gpus_per_server` is: one type, compiled once

    def _allowed(self, ask: Ask) -> IntArray:
        kinds = self._view.topology.server_gpu_type
        fits: IntArray = (self._view.server_closed == 0) & ((ask.type_mask >> kinds) & 1 == 1)
        return fits


def _share(ask: Ask, cpu_milli: IntArray | None, memory_mib: IntArray | None) -> IntArray:
    """Workers for which these cores and this memory suffice; None: unbounded."""
    share: IntArray = np.array(PLENTY)
    if ask.cpu_milli > 0 and cpu_milli is not None:
        share = np.minimum(share, cpu_milli // ask.cpu_milli)
    if ask.memory_mib > 0 and memory_mib is not None:
        share = np.minimum(share, memory_mib // ask.memory_mib)
    return share
