"""Network models in which jobs share links: max-min fairly, k-way, or by their duty cycles."""

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN, LinkNetwork, make_link_network
from sim.physics.network_tables import NetworkTables
from sim.physics.told_tables import told_tables
from sim.physics.traffic_rules import TrafficRule
from sim.topology.topology import Topology


class _SharedLinks:
    """What the three have: traffic, latencies, overlap."""

    sharing: int

    def __init__(
        self,
        *,
        traffic: TrafficRule,
        alpha_local_s: float,
        alpha_server_s: float,
        overlap_frac: float,
        eta_frac: float,
    ) -> None:
        for key, value in {"alpha_local_s": alpha_local_s, "alpha_server_s": alpha_server_s,
                           "eta_frac": eta_frac}.items():  # fmt: skip
            if not 0.0 <= value < float("inf"):
                raise PhysicsError(f"network.{key} is {value}; it must be 0 or more")
        if not 0.0 <= overlap_frac < 1.0:
            raise PhysicsError(
                f"network.overlap_frac is {overlap_frac}; it must be from 0 to below 1"
            )
        self._traffic = traffic
        self._constants = {"alpha_local_s": alpha_local_s, "alpha_server_s": alpha_server_s,
                           "overlap_frac": overlap_frac, "eta_frac": eta_frac}  # fmt: skip

    def links(self, catalogue: Catalogue, topology: Topology) -> LinkNetwork:
        """The link network that the kernel reads."""
        return make_link_network(
            sharing=self.sharing,
            traffic=self._traffic.traffic(catalogue),
            catalogue=catalogue,
            topology=topology,
            **self._constants,
        )

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """What schedulers are told: tables that come near these links (`told_tables`)."""
        return told_tables(self.links(catalogue, topology), catalogue, topology)


class _WithoutLoss(_SharedLinks):
    """Models that lose no bandwidth to jobs' being many."""

    def __init__(
        self,
        *,
        traffic: TrafficRule,
        alpha_local_s: float,
        alpha_server_s: float,
        overlap_frac: float,
    ) -> None:
        """Set the constants; PhysicsError if one is out of range.

        Args:
            traffic: what each profile sends.
            alpha_local_s: latency of one message step inside a server.
            alpha_server_s: latency of one message step between servers.
            overlap_frac: share of the communication hidden behind compute.
        """
        super().__init__(
            traffic=traffic,
            alpha_local_s=alpha_local_s,
            alpha_server_s=alpha_server_s,
            overlap_frac=overlap_frac,
            eta_frac=0.0,
        )


class MaxMin(_WithoutLoss):
    """Jobs share every link max-min fairly (see `sim.physics.max_min`)."""

    sharing = MAX_MIN


class KWay(_SharedLinks):
    """k jobs on a link take a + k b M + (k - 1) eta M each (see `sim.physics.settle`)."""

    sharing = K_WAY

    def __init__(
        self,
        *,
        traffic: TrafficRule,
        alpha_local_s: float,
        alpha_server_s: float,
        overlap_frac: float,
        eta_frac: float,
    ) -> None:
        """Set the constants; PhysicsError if one is out of range.

        Args:
            traffic: what each profile sends.
            alpha_local_s: latency of one message step inside a server.
            alpha_server_s: latency of one message step between servers; a is the sum of a job's.
            overlap_frac: share of the communication hidden behind compute.
            eta_frac: eta / b, time lost to each further job on a link over the time alone.
        """
        super().__init__(
            traffic=traffic,
            alpha_local_s=alpha_local_s,
            alpha_server_s=alpha_server_s,
            overlap_frac=overlap_frac,
            eta_frac=eta_frac,
        )


class DutyCycle(_WithoutLoss):
    """Jobs are slowed down on a link by how much of the time the others there keep it busy.

    Job j takes bytes / capacity x (1 + sum over the others of their busy share), where the busy
    share of a job is its time on the link over its whole step, both alone. Two jobs that only
    communicate get half each, as with `MaxMin`; one that computes most of the time disturbs little.
    Our own model, since it fits measured pairs of jobs far better (docs/clusters.md).
    """

    sharing = DUTY
