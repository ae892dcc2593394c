"""What a placement costs by the weights of the topology tree, as York University's code has it.

    step = (compute + sync * (1 + rack_slow_frac * (racks - 1))) * cost
    cost = gpu_weight * gang + server_weight * servers + rack_weight * racks

The cost is the sum of the weights of the edges of the tree that join the gang's GPUs and the
center: one edge a GPU, a server and a rack. A weight is one over the bandwidth class of its edge.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, GangCatalogue
from sim.physics.network_tables import NetworkTables
from sim.physics.reference import compact_spread
from sim.topology.topology import Topology


class YorkNetwork:
    """Tables over servers and racks spanned; one GPU costs 1, so that its step is compute + sync.

    The tables add up, the law is a product. Exact are all placements in one rack; over several, the
    share of the all-reduce that `rack_slow_frac` adds is charged at a middle number of servers,
    which tests hold within 6 % of the step. Nobody disturbs anybody: links are not shared.
    """

    def __init__(
        self,
        *,
        gpu_weight: float,
        server_weight: float,
        rack_weight: float,
        rack_slow_frac: float,
    ) -> None:
        """Set the weights: GPU to server, server to rack, rack to center; racks' all-reduce.

        Raises:
            PhysicsError: naming the key, the value and the rule.
        """
        weights = {"gpu_weight": gpu_weight, "server_weight": server_weight,
                   "rack_weight": rack_weight, "rack_slow_frac": rack_slow_frac}  # fmt: skip
        for key, value in weights.items():
            if not 0 <= value < np.inf:
                raise PhysicsError(f"network.{key} is {value}; it must be 0 or more")
        self._weights = gpu_weight, server_weight, rack_weight
        self._rack_slow_frac = rack_slow_frac
        self._unit = sum(self._weights)
        if self._unit == 0:
            raise PhysicsError("network.gpu_weight, server_weight and rack_weight are all 0")

    def cost(self, gang: IntArray, servers: IntArray | FloatArray, racks: IntArray) -> FloatArray:
        """Communication cost of placements, as published: 0.775 for one GPU by the usual weights.

        Args:
            gang: GPUs of each placement.
            servers: servers spanned.
            racks: racks spanned.
        """
        gpu, server, rack = self._weights
        total: FloatArray = gpu * gang + server * servers + rack * racks
        return total

    @property
    def unit_speed(self) -> float:
        """What a speed by these tables has to be multiplied by: one GPU's cost is 1 in them."""
        return 1.0 / self._unit

    def least_cost(self, gang: IntArray, topology: Topology) -> FloatArray:
        """Cost of the most compact placement of each gang on an empty cluster."""
        _, servers, racks = compact_spread(gang, topology)
        return self.cost(gang, servers, racks)

    def step_s(
        self,
        catalogue: GangCatalogue,
        row: IntArray,
        servers: IntArray | FloatArray,
        racks: IntArray,
    ) -> FloatArray:
        """The law itself: seconds an iteration, with the cost of one GPU as 1."""
        slow = 1.0 + self._rack_slow_frac * (np.asarray(racks) - 1.0)
        alone_s = catalogue.compute_s[row, 0] + catalogue.sync_s[row] * slow
        cost = self.cost(catalogue.gang[row], servers, racks) / self._unit
        return np.asarray(alone_s * cost)

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """The law as sums.

        Raises:
            PhysicsError: the catalogue has no rows for gangs.
        """
        if not isinstance(catalogue, GangCatalogue):
            raise PhysicsError("network=york needs rows for every gang; use profiles=york")
        row = np.arange(len(catalogue.names))[:, None]
        servers = np.arange(1, topology.num_servers + 1)
        racks = np.arange(1, topology.num_racks + 1)
        one = np.ones(1, dtype=np.int64)
        one_s = self.step_s(catalogue, row, one, one)
        largest = int(topology.gpus_per_server.max())
        spread = self._middle(catalogue, row, racks)
        crossing_s = self.step_s(catalogue, row, spread, racks)
        inside_s = self.step_s(catalogue, row, spread, one)
        return NetworkTables(
            local_s=np.repeat(one_s - catalogue.compute_s[:, :1], largest + 1, axis=1),
            server_s=_from_zero(self.step_s(catalogue, row, servers, one) - one_s),
            rack_s=_from_zero(crossing_s - inside_s),
            nic_factor=np.ones(2),
            uplink_factor=np.ones(2),
        )

    def _middle(self, catalogue: GangCatalogue, row: IntArray, racks: IntArray) -> FloatArray:
        """(P, R) servers at which the sums are exact: fewest and most are equally far off."""
        fewest = np.broadcast_to(racks, (len(row), len(racks)))
        most = np.maximum(catalogue.gang[:, None], racks)
        least_s = self.step_s(catalogue, row, fewest, racks)
        longest_s = self.step_s(catalogue, row, most, racks)
        return np.asarray((fewest * longest_s + most * least_s) / (least_s + longest_s))

    def links(self, catalogue: Catalogue, topology: Topology) -> None:
        """None: the tables are all there is."""


def _from_zero(table: FloatArray) -> FloatArray:
    """(P, n + 1) of a table over 1 .. n, 0 at 0."""
    return np.concatenate([np.zeros((len(table), 1)), table], axis=1)
