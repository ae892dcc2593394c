"""Communication by formula: none, a ring over a leaf-spine tree, rings at three tiers.

The alpha-beta cost of a ring all-reduce is that of Thakur, Rabenseifner and Gropp 2005; contention
that grows with the number of jobs on a link is our simplification. `TieredRings` stands in for the
simulator behind Dally (Sharma et al., arXiv 2401.16492), as a sum over tiers l of rings of n:

    comm_s = (1 - overlap) * sum over l of 2 (n - 1) / n * bytes / B_l + 2 (n - 1) * alpha_l * W

W = ⌈layers / layers in flight⌉ is the number of rounds in which layers are reduced. The parameters
are free: the published figures fix bytes, layers and link speeds only.

What a placement costs by the weights of the topology tree, as York University's code has it.

    step = (compute + sync * (1 + rack_slow_frac * (racks - 1))) * cost
    cost = gpu_weight * gang + server_weight * servers + rack_weight * racks

The cost is the sum of the weights of the edges of the tree that join the gang's GPUs and the
center: one edge a GPU, a server and a rack. A weight is one over the bandwidth class of its edge.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError, check_numbers
from sim.physics.catalogue import Catalogue, GangCatalogue, LayeredCatalogue
from sim.physics.laws import NetworkTables, ring_share, transfer_s
from sim.physics.reference import compact_spread
from sim.topology.topology import Topology


class _ByTables:
    """A network whose links jobs do not share."""

    def links(self, catalogue: Catalogue, topology: Topology) -> None:
        """None: the tables are all there is."""


class NoNetwork(_ByTables):
    """Zero seconds however far a gang spreads."""

    assumed = "communication is free"

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """Zero times, factors of 1."""
        profiles = len(catalogue.names)
        return NetworkTables(
            local_s=np.zeros((profiles, int(topology.gpus_per_server.max()) + 1)),
            server_s=np.zeros((profiles, topology.num_servers + 1)),
            rack_s=np.zeros((profiles, topology.num_racks + 1)),
            nic_factor=np.ones(2),
            uplink_factor=np.ones(2),
        )


MOST_TENANTS = 4  # factors are tabulated up to this many one-GPU tenants on every GPU below a link


@dataclass(frozen=True, kw_only=True)
class AlphaBetaRing(_ByTables):
    """Ring inside a server, ring over servers, an extra where racks are crossed."""

    alpha_local_s: float  # latency of one ring step inside a server
    alpha_server_s: float  # latency of one ring step between servers
    contention: float  # relative time added by every further job on a NIC or uplink
    uplink_free_jobs: int  # multi-rack jobs that an uplink carries without contention
    rack_extra: float  # relative time added by the ring over racks

    def __post_init__(self) -> None:
        """Raise a PhysicsError if one is negative."""
        check_numbers("network", "0 or more", PhysicsError, **vars(self))

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """Tables with the smallest link capacities of the topology's servers."""
        nic_gbps, intra_gbps = float(topology.nic_gbps.min()), float(topology.intra_gbps.min())
        sync_bytes = catalogue.sync_bytes
        largest_server = int(topology.gpus_per_server.max())
        rack_gpus = np.bincount(topology.server_rack, weights=topology.gpus_per_server)
        return NetworkTables(
            local_s=_ring_s(sync_bytes, intra_gbps, largest_server, self.alpha_local_s),
            server_s=_ring_s(sync_bytes, nic_gbps, topology.num_servers, self.alpha_server_s),
            rack_s=self.rack_extra * _ring_s(sync_bytes, nic_gbps, topology.num_racks, 0.0),
            nic_factor=_factor(self.contention, 1, MOST_TENANTS * largest_server),
            uplink_factor=_factor(
                self.contention, self.uplink_free_jobs, MOST_TENANTS * int(rack_gpus.max())
            ),
        )


def _factor(contention: float, free: int, most: int) -> FloatArray:
    """(most + 1,) time factor of 0 .. most jobs on a link that carries `free` at full speed."""
    factor = 1.0 + contention * np.maximum(0, np.arange(most + 1) - free)
    factor[:2] = 1.0
    return factor


def _ring_s(
    sync_bytes: FloatArray, gbps: float, most: int, alpha_s: float | FloatArray
) -> FloatArray:
    """(P, most + 1) seconds of a ring over 0 .. most members; 0 up to one member.

    `alpha_s` is the latency of a step, of all profiles or (P, 1).
    """
    members = np.arange(most + 1, dtype=np.float64)
    steps = 2.0 * np.maximum(members - 1.0, 0.0)
    transfer = transfer_s(sync_bytes, gbps)[:, None] * ring_share(np.maximum(members, 1.0))[None, :]
    return np.asarray(transfer + steps[None, :] * alpha_s)


@dataclass(frozen=True, kw_only=True)
class TieredRings(_ByTables):
    """Every tier moves all bytes: the workers of a server share its NIC, of a rack its uplink.

    Speeds are the topology's, smallest first: `intra_gbps` in a server, `nic_gbps` between
    servers, and between racks one server's share of `uplink_gbps`. The tier of servers counts all
    servers of the job, whatever their racks; crossing racks comes on top. A gang that a tier does
    not divide evenly is no exception (theirs is then one flat ring at the speed of its slowest
    tier). Without contention a job is as fast as alone, which is what the authors simulate.
    """

    assumed = "rings of three tiers"

    alpha_local_s: float  # latency of one ring step inside a server
    alpha_server_s: float  # latency of one ring step between servers
    alpha_rack_s: float  # latency of one ring step between racks
    layers_in_flight: int  # layers that are reduced at the same time
    overlap_frac: float  # share of the communication that compute hides
    # Relative time added by every further job on a NIC or uplink; 1 divides the bandwidth.
    contention: float

    def __post_init__(self) -> None:
        """Raise a PhysicsError, naming the key, the value and the rule, for one out of range."""
        for rule, keys in (
            ("0 or more", ("alpha_local_s", "alpha_server_s", "alpha_rack_s", "contention")),
            ("from 0 to 1", ("overlap_frac",)),
            ("1 or more", ("layers_in_flight",)),
        ):
            check_numbers("network", rule, PhysicsError, **{k: getattr(self, k) for k in keys})

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """One ring a tier; catalogues without layers send theirs in one message."""
        largest = int(topology.gpus_per_server.max())
        rack_gpus = np.bincount(topology.server_rack, weights=topology.gpus_per_server)
        share_gbps = float((topology.uplink_gbps / np.bincount(topology.server_rack)).min())
        speeds = float(topology.intra_gbps.min()), float(topology.nic_gbps.min()), share_gbps
        sizes = largest, topology.num_servers, topology.num_racks
        alphas_s = self.alpha_local_s, self.alpha_server_s, self.alpha_rack_s
        local_s, server_s, rack_s = (
            self._ring_s(catalogue, most, gbps, alpha_s)
            for most, gbps, alpha_s in zip(sizes, speeds, alphas_s, strict=True)
        )
        return NetworkTables(
            local_s=local_s,
            server_s=server_s,
            rack_s=rack_s,
            nic_factor=_factor(self.contention, 1, MOST_TENANTS * largest),
            uplink_factor=_factor(self.contention, 1, MOST_TENANTS * int(rack_gpus.max())),
        )

    def _ring_s(self, catalogue: Catalogue, most: int, gbps: float, alpha_s: float) -> FloatArray:
        """(P, most + 1) seconds of the rings of one tier over 0 .. most members; 0 up to one."""
        layers = np.ones(len(catalogue.names), dtype=np.int64)
        if isinstance(catalogue, LayeredCatalogue):
            layers = catalogue.layers
        rounds = np.ceil(layers / self.layers_in_flight)[:, None]
        return (1.0 - self.overlap_frac) * _ring_s(
            catalogue.sync_bytes, gbps, most, alpha_s * rounds
        )


class YorkNetwork(_ByTables):
    """Tables over servers and racks spanned; one GPU costs 1, so that its step is compute + sync.

    The tables add up, the law is a product. Exact are all placements in one rack; over several, the
    share of the all-reduce that `rack_slow_frac` adds is charged at a middle number of servers,
    which tests hold within 6 % of the step. Nobody disturbs anybody: links are not shared.
    """

    assumed = "communication by the tree's weights"

    def __init__(
        self, *, gpu_weight: float, server_weight: float, rack_weight: float, rack_slow_frac: float
    ) -> None:
        """Weights of edges: GPU to server, server to rack, rack to center; see the module."""
        check_numbers(
            "network", "0 or more", PhysicsError, gpu_weight=gpu_weight,
            server_weight=server_weight, rack_weight=rack_weight, rack_slow_frac=rack_slow_frac,
        )  # fmt: skip
        self._weights = gpu_weight, server_weight, rack_weight
        self._rack_slow_frac = rack_slow_frac
        self._unit = sum(self._weights)
        if self._unit == 0:
            raise PhysicsError("network.gpu_weight, server_weight and rack_weight are all 0")

    def cost(self, gang: IntArray, servers: IntArray | FloatArray, racks: IntArray) -> FloatArray:
        """Communication cost of placements, as published: 0.775 for a GPU by the usual weights."""
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
        self, catalogue: GangCatalogue, row: IntArray, servers: IntArray | FloatArray,
        racks: IntArray,
    ) -> FloatArray:  # fmt: skip
        """The law itself: seconds an iteration, with the cost of one GPU as 1."""
        slow = 1.0 + self._rack_slow_frac * (np.asarray(racks) - 1.0)
        alone_s = catalogue.compute_s[row, 0] + catalogue.sync_s[row] * slow
        cost = self.cost(catalogue.gang[row], servers, racks) / self._unit
        return np.asarray(alone_s * cost)

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """The law as sums; PhysicsError: the catalogue has no rows for gangs."""
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


def _from_zero(table: FloatArray) -> FloatArray:
    """(P, n + 1) of a table over 1 .. n, 0 at 0."""
    return np.concatenate([np.zeros((len(table), 1)), table], axis=1)
