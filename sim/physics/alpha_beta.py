"""Alpha-beta cost of a ring all-reduce over a leaf-spine tree, with linear link contention.

The alpha-beta (latency plus bytes over bandwidth) cost of ring all-reduce is that of Thakur,
Rabenseifner and Gropp 2005; contention that grows with the number of jobs on a link is our
simplification.
"""

import numpy as np

from sim.arrays import FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.network_tables import NetworkTables
from sim.physics.ring import ring_share, transfer_s
from sim.topology.topology import Topology

MOST_TENANTS = 4  # factors are tabulated up to this many one-GPU tenants on every GPU below a link


class AlphaBetaRing:
    """Ring inside a server, ring over servers, an extra where racks are crossed."""

    def __init__(
        self,
        *,
        alpha_local_s: float,
        alpha_server_s: float,
        contention: float,
        uplink_free_jobs: int,
        rack_extra: float,
    ) -> None:
        """Set the constants; PhysicsError if one is negative.

        Args:
            alpha_local_s: latency of one ring step inside a server.
            alpha_server_s: latency of one ring step between servers.
            contention: relative time added by every further job on a NIC or uplink.
            uplink_free_jobs: multi-rack jobs that an uplink carries without contention.
            rack_extra: relative time added by the ring over racks.
        """
        constants = {"alpha_local_s": alpha_local_s, "alpha_server_s": alpha_server_s,
                     "contention": contention, "uplink_free_jobs": uplink_free_jobs,
                     "rack_extra": rack_extra}  # fmt: skip
        for key, value in constants.items():
            if not value >= 0:
                raise PhysicsError(f"network.{key} is {value}; it must be 0 or more")
        self._alpha_local_s = alpha_local_s
        self._alpha_server_s = alpha_server_s
        self._contention = contention
        self._uplink_free_jobs = uplink_free_jobs
        self._rack_extra = rack_extra

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """Tables with the smallest link capacities of the topology's servers."""
        nic_gbps, intra_gbps = float(topology.nic_gbps.min()), float(topology.intra_gbps.min())
        sync_bytes = catalogue.sync_bytes
        largest_server = int(topology.gpus_per_server.max())
        rack_gpus = np.bincount(topology.server_rack, weights=topology.gpus_per_server)
        return NetworkTables(
            local_s=_ring_s(sync_bytes, intra_gbps, largest_server, self._alpha_local_s),
            server_s=_ring_s(sync_bytes, nic_gbps, topology.num_servers, self._alpha_server_s),
            rack_s=self._rack_extra * _ring_s(sync_bytes, nic_gbps, topology.num_racks, 0.0),
            nic_factor=self._factor(free=1, most=MOST_TENANTS * largest_server),
            uplink_factor=self._factor(
                free=self._uplink_free_jobs, most=MOST_TENANTS * int(rack_gpus.max())
            ),
        )

    def links(self, catalogue: Catalogue, topology: Topology) -> None:
        """None: the tables are all there is."""

    def _factor(self, *, free: int, most: int) -> FloatArray:
        """(most + 1,) time factor of 0 .. most jobs on a link that carries `free` at full speed."""
        jobs = np.arange(most + 1)
        factor = 1.0 + self._contention * np.maximum(0, jobs - free)
        factor[:2] = 1.0
        return factor


def _ring_s(sync_bytes: FloatArray, gbps: float, most: int, alpha_s: float) -> FloatArray:
    """(P, most + 1) seconds of a ring over 0 .. most members; 0 up to one member."""
    members = np.arange(most + 1, dtype=np.float64)
    steps = 2.0 * np.maximum(members - 1.0, 0.0)
    transfer = transfer_s(sync_bytes, gbps)[:, None] * ring_share(members)[None, :]
    return np.asarray(transfer + steps[None, :] * alpha_s)
