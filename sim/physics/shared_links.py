"""Network models in which jobs share links, and rules for the pattern of each profile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError, check_numbers
from sim.physics.catalogue import Catalogue
from sim.physics.job_load import make_load_scratch, measure_placement
from sim.physics.laws import NetworkTables
from sim.physics.link_network import (
    BYTES_PER_GBIT,
    DUTY,
    K_WAY,
    MAX_MIN,
    LinkNetwork,
    make_link_network,
    server_flows,
)
from sim.physics.max_min import k_way_factor
from sim.physics.networks import MOST_TENANTS
from sim.physics.reference import LoneJob, compact_gpus
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, Traffic
from sim.topology.topology import Topology

PATTERNS = {"ring": RING, "parameter_server": PARAMETER_SERVER, "mix": MIX}


class TrafficRule(Protocol):
    """States what each profile sends."""

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """Rows in the catalogue's order."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One pattern; its sizes are multiples of a profile's exposed gradient bytes."""

    pattern: str  # ring, parameter_server or mix
    ps_count: int  # shards of a parameter server
    stages: int  # of a mix
    tensor_width: int  # of a mix
    activation_frac: float  # bytes over a stage boundary / gradient bytes
    tensor_frac: float  # bytes all-reduced by tensor groups / gradient bytes

    def __post_init__(self) -> None:
        """Check names and ranges; PhysicsError names the key, the value and the rule."""
        if self.pattern not in PATTERNS:
            raise PhysicsError(
                f"network.traffic.pattern is {self.pattern!r}; use one of {', '.join(PATTERNS)}"
            )
        counts = {key: getattr(self, key) for key in ("ps_count", "stages", "tensor_width")}
        check_numbers("network.traffic", "a whole number from 1", PhysicsError, **counts)
        shares = {key: getattr(self, key) for key in ("activation_frac", "tensor_frac")}
        check_numbers("network.traffic", "0 or more", PhysicsError, **shares)

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """The same pattern for every profile."""
        return PatternByModel(default=self, models={}).traffic(catalogue)


@dataclass(frozen=True, kw_only=True)
class PatternByModel:
    """A pattern for some models, another for the rest."""

    default: Pattern
    models: Mapping[str, Pattern]  # by profile name, or by model: what stands before the "/"

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """Rows in the catalogue's order; PhysicsError for a model that the catalogue lacks."""
        known = {name.partition("/")[0] for name in catalogue.names} | set(catalogue.names)
        for name in self.models:
            if name not in known:
                raise PhysicsError(
                    f"network traffic names model {name!r}, which the profiles lack; "
                    f"use one of {', '.join(sorted(known))}"
                )
        chosen = [
            self.models.get(name, self.models.get(name.partition("/")[0], self.default))
            for name in catalogue.names
        ]
        grad_bytes = np.ascontiguousarray(catalogue.sync_bytes, dtype=np.float64)
        return Traffic(
            pattern=np.array([PATTERNS[rule.pattern] for rule in chosen], dtype=np.int64),
            grad_bytes=grad_bytes,
            ps_count=np.array([rule.ps_count for rule in chosen], dtype=np.int64),
            stages=np.array([rule.stages for rule in chosen], dtype=np.int64),
            tensor_width=np.array([rule.tensor_width for rule in chosen], dtype=np.int64),
            activation_bytes=grad_bytes * [rule.activation_frac for rule in chosen],
            tensor_bytes=grad_bytes * [rule.tensor_frac for rule in chosen],
        )


MOST_SPANNED = 64  # servers and racks tabulated; the last entry stands for more


def link_tables(network: LinkNetwork, catalogue: Catalogue, topology: Topology) -> NetworkTables:
    """Tables of a job alone on its spread, and factors of company."""
    exposed = 1.0 - network.overlap_frac
    size = int(topology.gpus_per_server.max())
    local_s = exposed * _local_s(network, topology, size)
    server_s = exposed * _server_s(network, topology, size)
    rack_gpus = np.bincount(topology.server_rack, weights=topology.gpus_per_server)
    nic_gbps = float(topology.nic_gbps.min())
    nics = max(1.0, float(np.median(topology.uplink_gbps)) / nic_gbps)  # that an uplink serves
    busy = _busy(catalogue, local_s, server_s)
    return NetworkTables(
        local_s=local_s, server_s=server_s, rack_s=exposed * _rack_s(network, topology),
        nic_factor=_factor(network, busy, MOST_TENANTS * size, 1.0),
        uplink_factor=_factor(network, busy, MOST_TENANTS * int(rack_gpus.max()), nics),
    )  # fmt: skip


def _local_s(network: LinkNetwork, topology: Topology, size: int) -> FloatArray:
    """(P, size + 1) seconds inside one of the largest servers."""
    alone = LoneJob(network, topology, size)
    table = np.zeros((len(network.profile), size + 1))
    for gang in range(2, size + 1):
        gpus = compact_gpus(topology, gang)
        for profile in range(len(table)):
            table[profile, gang] = alone.seconds(profile, gpus)[0]
    return table


def _nic_s(network: LinkNetwork, topology: Topology, profile: int, gpus_on: IntArray) -> float:
    """Seconds between servers that hang on one switch by a NIC each, latency included."""
    gpu_server = np.repeat(np.arange(len(gpus_on)), gpus_on)
    scratch = make_load_scratch(network, len(gpu_server))
    servers = measure_placement(np.arange(len(gpu_server)), gpu_server, scratch.gang)
    count, steps = server_flows(network.profile[profile], scratch.gang, servers, scratch.flow)
    flow = scratch.flow[:count]
    each_way = [
        np.bincount(flow[end], weights=flow["num_bytes"], minlength=1).max()
        for end in ("source", "target")
    ]
    rate = float(topology.nic_gbps.min()) * BYTES_PER_GBIT
    return float(max(each_way) / rate + steps * network.alpha_server_s)


def _server_s(network: LinkNetwork, topology: Topology, size: int) -> FloatArray:
    """(P, s + 1) seconds between s full servers of the largest size."""
    most = min(topology.num_servers, MOST_SPANNED)
    table = np.zeros((len(network.profile), most + 1))
    for profile in range(len(table)):
        for servers in range(2, most + 1):
            gpus_on = np.full(servers, size)
            table[profile, servers] = _nic_s(network, topology, profile, gpus_on)
    return table


def _rack_s(network: LinkNetwork, topology: Topology) -> FloatArray:
    """(P, r + 1) seconds that routes add to a worker in each of the first r racks."""
    most = min(topology.num_racks, MOST_SPANNED)
    first_server = np.searchsorted(topology.server_rack, np.arange(most))
    gpus = topology.server_first_gpu[first_server]
    alone = LoneJob(network, topology, most)
    table = np.zeros((len(network.profile), most + 1))
    for profile in range(len(table)):
        for racks in range(2, most + 1):
            through_links_s = alone.seconds(profile, gpus[:racks])[1]
            nic_s = _nic_s(network, topology, profile, np.ones(racks, dtype=np.int64))
            table[profile, racks] = max(0.0, through_links_s - nic_s)
    return table


def _busy(catalogue: Catalogue, local_s: FloatArray, server_s: FloatArray) -> float:
    """Mean share of its step that a profile on two servers keeps its NIC busy."""
    spread_s = server_s[:, min(2, server_s.shape[1] - 1)]
    step_s = catalogue.compute_s.mean(axis=1) + local_s[:, -1] + spread_s
    return float(np.mean(spread_s / step_s))


def _factor(network: LinkNetwork, busy: float, most: int, nics: float) -> FloatArray:
    """(most + 1,) time with 0 .. most jobs on a link as wide as `nics` of theirs, over alone."""
    if network.sharing == DUTY:
        law = [1.0 + max(0, jobs - 1) * busy for jobs in range(most + 1)]
    else:
        law = [float(k_way_factor(jobs, network.eta_frac)) for jobs in range(most + 1)]
    factor = np.maximum(1.0, np.array(law) / nics)
    factor[:2] = 1.0
    return factor


@dataclass(frozen=True, kw_only=True)
class _SharedLinks:
    """What the three have: traffic, latencies, overlap."""

    sharing: ClassVar[int]
    traffic: TrafficRule  # what each profile sends
    alpha_local_s: float  # latency of one message step inside a server
    alpha_server_s: float  # latency of one message step between servers
    overlap_frac: float  # share of the communication hidden behind compute

    def __post_init__(self) -> None:
        """Raise a PhysicsError if a constant is out of range."""
        alphas_s = {"alpha_local_s": self.alpha_local_s, "alpha_server_s": self.alpha_server_s}
        check_numbers("network", "0 or more", PhysicsError, **alphas_s)
        share = {"overlap_frac": self.overlap_frac}
        check_numbers("network", "from 0 to below 1", PhysicsError, **share)

    @property
    def lost_frac(self) -> float:
        """Time lost to each further job on a link over the time alone."""
        return 0.0

    def links(self, catalogue: Catalogue, topology: Topology) -> LinkNetwork:
        """The link network that the kernel reads."""
        return make_link_network(
            sharing=self.sharing,
            traffic=self.traffic.traffic(catalogue),
            catalogue=catalogue,
            topology=topology,
            eta_frac=self.lost_frac,
            alpha_local_s=self.alpha_local_s,
            alpha_server_s=self.alpha_server_s,
            overlap_frac=self.overlap_frac,
        )

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """What schedulers go by: tables that come near these links (`link_tables`)."""
        return link_tables(self.links(catalogue, topology), catalogue, topology)


class MaxMin(_SharedLinks):
    """Jobs share every link max-min fairly (see `sim.physics.max_min`)."""

    assumed = "jobs share links by max-min"
    sharing = MAX_MIN


@dataclass(frozen=True, kw_only=True)
class KWay(_SharedLinks):
    """k jobs on a link take a + k b M + (k - 1) eta M each (see `sim.physics.max_min`).

    a is the sum of a job's `alpha_server_s`.
    """

    assumed = "jobs share links evenly"
    sharing = K_WAY
    eta_frac: float  # eta / b, time lost to each further job on a link over the time alone

    def __post_init__(self) -> None:
        """Raise a PhysicsError if a constant is out of range."""
        super().__post_init__()
        check_numbers("network", "0 or more", PhysicsError, eta_frac=self.eta_frac)

    @property
    def lost_frac(self) -> float:
        """As configured."""
        return self.eta_frac


class DutyCycle(_SharedLinks):
    """Jobs are slowed down on a link by how much of the time the others there keep it busy.

    Job j takes bytes / capacity x (1 + sum over the others of their busy share), where the busy
    share of a job is its time on the link over its whole step, both alone. Two jobs that only
    communicate get half each, as with `MaxMin`; one that computes most of the time disturbs little.
    Our own model, since it fits measured pairs of jobs far better (docs/clusters.md).
    """

    assumed = "jobs share links by duty cycle"
    sharing = DUTY
