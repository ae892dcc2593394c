"""Contention of a server's cores and PCIe: which servers have how much, and what jobs want of it.

The host part of a step stretches by demand over capacity of the scarcer of the two, where the
demand of all workers on the server exceeds it (docs/reference/semantics.md, Work).
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, HostNeeds
from sim.topology.topology import Topology


@dataclass(frozen=True)
class HostTables:
    """What the kernel reads."""

    needs: HostNeeds
    server_cpu_milli: IntArray  # (S,) above 0
    server_pcie_mbs: IntArray  # (S,) above 0

    def __post_init__(self) -> None:
        """Check that no server is without cores or PCIe."""
        if np.any(self.server_cpu_milli <= 0) or np.any(self.server_pcie_mbs <= 0):
            raise PhysicsError("host: a server has no cores or no PCIe; each needs more than 0")


class NoHost:
    """Cores and PCIe are never scarce."""

    def tables(self, catalogue: Catalogue, topology: Topology) -> HostTables | None:
        """None."""
        del catalogue, topology
        return None


class SharedHost:
    """All workers on a server share its cores and its PCIe."""

    def __init__(self, *, cores_per_gpu: float, pcie_gbs_per_gpu: float) -> None:
        """Give what a server has for each of its GPUs.

        Args:
            cores_per_gpu: of servers of which the topology does not count the cores.
            pcie_gbs_per_gpu: GB/s between host and GPUs.

        Raises:
            PhysicsError: one is no finite number above 0.
        """
        for key, value in (
            ("cores_per_gpu", cores_per_gpu),
            ("pcie_gbs_per_gpu", pcie_gbs_per_gpu),
        ):
            if not 0.0 < value < float("inf"):
                raise PhysicsError(f"host.{key} is {value}; it must be a finite number above 0")
        self._milli_per_gpu = round(cores_per_gpu * 1000)
        self._mbs_per_gpu = round(pcie_gbs_per_gpu * 1000)

    def tables(self, catalogue: Catalogue, topology: Topology) -> HostTables | None:
        """Tables over the topology's servers; PhysicsError for profiles that state no needs."""
        if catalogue.host is None:
            raise PhysicsError(
                f"host=shared needs profiles that state their needs of the host; those of source "
                f"{catalogue.source!r} do not; use profiles=shipped or profiles=measured"
            )
        gpus, counted = topology.gpus_per_server.astype(np.int64), topology.server_cpu_milli
        return HostTables(
            needs=catalogue.host,
            server_cpu_milli=gpus * self._milli_per_gpu if counted is None else counted,
            server_pcie_mbs=gpus * self._mbs_per_gpu,
        )
