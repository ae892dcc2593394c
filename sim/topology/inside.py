"""The layout inside servers: sockets, PCIe switches, NVLink islands, and how fast GPUs talk."""

import math
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TopologyError
from sim.jit import kernel

NO_ISLAND = -1


@dataclass(frozen=True)
class Inside:
    """G GPUs of S servers; sockets, switches and islands are numbered within each server."""

    gpu_socket: IntArray  # (G,)
    gpu_switch: IntArray  # (G,) PCIe switch
    gpu_island: IntArray  # (G,) NVLink island; NO_ISLAND: none
    nvlink_gbps: FloatArray  # (S,) between GPUs of one island
    pcie_gbps: FloatArray  # (S,) between GPUs below one PCIe switch
    socket_gbps: FloatArray  # (S,) between all others, through the processor sockets

    def __post_init__(self) -> None:
        """Check shapes and ranges."""
        shapes = {a.shape for a in (self.gpu_socket, self.gpu_switch, self.gpu_island)}
        rates = (self.nvlink_gbps, self.pcie_gbps, self.socket_gbps)
        if len(shapes) != 1 or len({rate.shape for rate in rates}) != 1:
            raise TopologyError("inside: its columns differ in length")
        if not all(np.all(np.isfinite(rate) & (rate > 0)) for rate in rates):
            raise TopologyError("inside: a rate is not a finite number above 0 Gbps")

    def slowest_gbps(self, server: int, gpus: IntArray) -> float:
        """Rate of the slowest hop among `gpus` (global ids, all of `server`); inf for one GPU."""
        return float(
            slowest_hop_gbps(
                self.gpu_switch,
                self.gpu_island,
                self.nvlink_gbps,
                self.pcie_gbps,
                self.socket_gbps,
                server,
                gpus,
            )
        )


@kernel
def slowest_hop_gbps(  # noqa: PLR0917 (compiled: arrays by position)
    gpu_switch: IntArray,
    gpu_island: IntArray,
    nvlink_gbps: FloatArray,
    pcie_gbps: FloatArray,
    socket_gbps: FloatArray,
    server: int,
    gpus: IntArray,
) -> float:
    """Slowest hop between any two of a server's GPUs; the arrays are those of `Inside`.

    A pair of one island uses NVLink, else a pair below one PCIe switch that switch, else the
    processor sockets. Fewer than two GPUs have no hop: infinity.
    """
    slowest = math.inf
    for at in range(len(gpus)):
        for before in range(at):
            one, two = gpus[at], gpus[before]
            if gpu_island[one] >= 0 and gpu_island[one] == gpu_island[two]:
                hop = nvlink_gbps[server]
            elif gpu_switch[one] == gpu_switch[two]:
                hop = pcie_gbps[server]
            else:
                hop = socket_gbps[server]
            slowest = min(slowest, hop)
    return slowest
