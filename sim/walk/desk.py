"""What decisions are planned on: fixed tables, copies of what a view shows, memory, orders."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.compiled.plan import COMPACT_WAIT, NEVER, SJF, TETRIS
from sim.handle import Handle
from sim.physics.slowing_tables import Slowing, empty_crowd, pairs_alone
from sim.signals import Signal
from sim.topology.topology import Topology
from sim.view import ClusterView
from sim.walk.plan import Rule


class Yard(NamedTuple):
    """What never changes: G GPUs in S servers of M partitions."""

    first_gpu: IntArray  # (S + 1,)
    gpu_server: IntArray  # (G,)
    rack: IntArray  # (S,)
    size: IntArray  # (S,) GPUs
    partition: IntArray  # (S,)
    own: IntArray  # (S,) servers, partition by partition, ascending
    first_own: IntArray  # (M + 1,) those of partition m: own[first_own[m]:first_own[m + 1]]
    capacity: IntArray  # (M,) GPUs


class Belief(NamedTuple):
    """What is believed of speeds (`sim.physics`); tables of one entry where nobody looks."""

    slowing: Slowing
    feasible: BoolArray  # (T, P, P)
    compute_s: FloatArray  # (P, S) by server
    local_s: FloatArray  # (P, .)
    server_s: FloatArray
    rack_s: FloatArray
    nic_factor: FloatArray
    uplink_factor: FloatArray


@dataclass(frozen=True, eq=False)
class Desk(Handle):
    """J jobs of P profiles (1 where nobody looks at them), B the largest gang, C tenants a GPU."""

    yard: Yard
    belief: Belief
    server_type: IntArray  # (S,) row of the belief's tables
    job_profile: IntArray  # (J,)
    estimate_s: FloatArray  # (J,) predicted work; zeros where nobody looks at it
    # Copies of what is there, with the starts planned so far.
    tenants: IntArray  # (G,)
    tenant: IntArray  # (G, C)
    crowd: IntArray  # scratch of `sim.physics.slowing`
    nic_jobs: IntArray  # (S,)
    uplink_jobs: IntArray  # (R,)
    server_free: IntArray  # (S,) GPUs without a tenant as the decision begins
    # Memory. A partition's version is another number whenever something changed there.
    version: IntArray  # (M + 1,) last: the highest number given
    refused: IntArray  # (M, P, B + 1) version in which such a gang was refused
    joining: FloatArray  # (P, G) cost of joining a GPU; NaN: to be worked out
    least_comm_s: FloatArray  # (M, P, B + 1) of `compact_wait`; NaN: to be worked out
    # The offer at hand.
    usable: BoolArray  # (G,)
    per_server: IntArray  # (S,)
    cost: FloatArray  # (G,)
    # Orders: start job[i] on gpus[first[i]:first[i + 1]].
    job: IntArray  # (G * C,)
    first: IntArray  # (G * C + 1,)
    gpus: IntArray  # (G * C,)
    taker: IntArray  # (G * C,) partition that took it from another; -1: its own job


def desk_of(view: ClusterView, rule: Rule) -> Desk:
    """The desk for one run; nothing is known of its GPUs yet."""
    jobs, topology = view.jobs, view.topology
    knows = Signal.PROFILE in view.granted
    profile = jobs.profile if knows else np.zeros(len(jobs.num_gpus), dtype=np.int64)
    profiles = len(view.known_physics.catalogue.names) if knows else 1
    most, seats = view.num_partitions, view.tenant.size
    kinds = (most, profiles, int(jobs.num_gpus.max(initial=0)) + 1)
    shares, waits = rule.sharing != NEVER, rule.placer == COMPACT_WAIT
    return Desk(
        yard=_yard(view),
        belief=_belief(view),
        server_type=np.array(view.server_type),
        job_profile=np.array(profile),
        estimate_s=_estimate_s(view, rule),
        tenants=np.full(topology.num_gpus, -1, dtype=np.int64),
        tenant=np.full(view.tenant.shape, -1, dtype=np.int64),
        crowd=empty_crowd(view.tenant.shape[1]),
        nic_jobs=np.zeros(topology.num_servers, dtype=np.int64),
        uplink_jobs=np.zeros(topology.num_racks, dtype=np.int64),
        server_free=np.zeros(topology.num_servers, dtype=np.int64),
        version=np.zeros(most + 1, dtype=np.int64),
        refused=np.zeros(kinds, dtype=np.int64),
        joining=np.full((profiles, topology.num_gpus) if shares else (1, 1), np.nan),
        least_comm_s=np.full(kinds if waits else (1, 1, 1), np.nan),
        usable=np.zeros(topology.num_gpus, dtype=np.bool_),
        per_server=np.zeros(topology.num_servers, dtype=np.int64),
        cost=np.ones(topology.num_gpus),
        job=np.zeros(seats, dtype=np.int64),
        first=np.zeros(seats + 1, dtype=np.int64),
        gpus=np.zeros(seats, dtype=np.int64),
        taker=np.zeros(seats, dtype=np.int64),
    )


def _estimate_s(view: ClusterView, rule: Rule) -> FloatArray:
    looks = rule.order in {SJF, TETRIS}
    return np.array(view.jobs.estimate_s) if looks else np.zeros(len(view.jobs.num_gpus))


def _yard(view: ClusterView) -> Yard:
    topology: Topology = view.topology
    partition = np.array(view.partition_of_server)
    servers = np.bincount(partition, minlength=view.num_partitions)
    return Yard(
        first_gpu=topology.server_first_gpu,
        gpu_server=topology.gpu_server,
        rack=topology.server_rack,
        size=topology.gpus_per_server,
        partition=partition,
        own=np.argsort(partition, kind="stable"),
        first_own=np.concatenate([[0], np.cumsum(servers)]),
        capacity=np.bincount(
            partition, weights=topology.gpus_per_server, minlength=view.num_partitions
        ).astype(np.int64),
    )


def _belief(view: ClusterView) -> Belief:
    """Contiguous copies whatever they are made from: one type, compiled once."""
    servers = view.topology.num_servers
    if Signal.INTERFERENCE not in view.granted:
        table, pairs = np.ones((1, 1)), np.ones((1, 1, 1))
        speeds = np.ones((1, servers))
        slowing = pairs_alone(pairs)
        return Belief(slowing, pairs > 0, speeds, table, table, table, np.ones(1), np.ones(1))
    belief = view.belief
    network, compute_s = belief.network, belief.catalogue.compute_s[:, view.server_type]
    return Belief(
        slowing=belief.slowing,
        feasible=np.array(belief.pairs.feasible, order="C"),
        compute_s=np.array(compute_s, order="C"),
        local_s=np.array(network.local_s, order="C"),
        server_s=np.array(network.server_s, order="C"),
        rack_s=np.array(network.rack_s, order="C"),
        nic_factor=np.array(network.nic_factor, order="C"),
        uplink_factor=np.array(network.uplink_factor, order="C"),
    )
