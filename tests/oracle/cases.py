"""Small random worlds for hypothesis: every feature of the physics, many ties."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sim.arrays import IntArray
from sim.jobs import JobTable
from sim.physics.laws import NetworkTables
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.run import Rules
from sim.topology.outages import NO_OUTAGES, Outages
from sim.topology.topology import Topology
from tests.oracle import case_parts
from tests.sim.worlds import physics_of, rules_of

GPU_TYPES = ("k80", "p100")
PROFILES = 3


@dataclass(frozen=True)
class Case:
    """What a simulator is made of."""

    jobs: JobTable
    topology: Topology
    physics: Physics
    belief: Physics
    partition_of_server: IntArray
    rules: Rules
    outages: Outages

    def arguments(self) -> dict[str, Any]:
        """For `Simulator` and `ReferenceSimulator` alike."""
        return dict(vars(self))


@st.composite
def cases(
    draw: Callable[..., Any], *, most_partitions: int, most_jobs: int = 40,
    physics: bool | None = None, equal_servers: bool = False, life: bool = False,
    mixes: bool = False,
) -> Case:  # fmt: skip
    """1 to `most_jobs` jobs on 1 to 6 servers of 1 to 4 GPUs.

    With `life`, jobs have traits and servers come and go; some jobs may then wait for ever. With
    `mixes`, three to five jobs may share a GPU and slow each other by a table, and cores and PCIe
    may be scarce.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="tables"))
    real = draw(st.booleans(), label="physics") if physics is None else physics
    linked = real and draw(st.sampled_from([False, False, True]), label="links")
    if linked:
        topology = case_parts.linked_topology(draw, GPU_TYPES, equal_servers)
    else:
        topology = _topology(draw, rng, equal_servers)
    if life:
        topology = case_parts.with_cores_and_memory(draw, topology, rng)
    partitions = draw(st.integers(1, min(most_partitions, topology.num_servers)))
    owner = np.arange(topology.num_servers) * partitions // topology.num_servers
    truth = _physics(topology, rng) if real else _no_physics(topology)
    truth = case_parts.with_links(draw, truth, topology, rng) if linked else truth
    guess = _physics(topology, rng)
    if life:
        truth = case_parts.with_measured_scaling(draw, truth, rng)
    if mixes:
        truth, guess = case_parts.with_mixes(draw, truth), case_parts.with_mixes(draw, guess)
        if draw(st.booleans(), label="host"):
            truth = case_parts.with_host(draw, truth, topology)
    pairs = PairTable(guess.pairs.slowdown, truth.pairs.feasible, "belief")
    jobs = _jobs(draw, topology, owner, rng, most_jobs)
    return Case(
        jobs=case_parts.with_traits(draw, jobs, topology, owner, rng) if life else jobs,
        topology=topology,
        physics=truth,
        belief=Physics(
            truth.catalogue, pairs, truth.network, truth.reference_gpu, mix_law=guess.mix_law
        ),
        partition_of_server=owner,
        rules=rules_of(
            max_tenants=draw(st.integers(*((3, 5) if mixes else (1, 3))), label="max_tenants"),
            restart_s=draw(st.sampled_from([0.0, 0.5, 2.0]), label="restart_s"),
            restart_s_per_gpu=draw(st.sampled_from([0.0, 0.25]), label="restart_s_per_gpu"),
            max_forwards=draw(st.integers(0, 3), label="max_forwards"),
            **(case_parts.checkpoint_rules(draw) if life else {}),
        ),
        outages=case_parts.outages_of(draw, topology) if life else NO_OUTAGES,
    )


def _topology(draw: Callable[..., Any], rng: np.random.Generator, equal_servers: bool) -> Topology:
    servers = draw(st.integers(1, 6), label="servers")
    if equal_servers or draw(st.booleans(), label="equal servers"):
        size = np.full(servers, draw(st.integers(1, 4), label="size"))
    else:
        size = rng.integers(1, 5, servers)
    racks = draw(st.integers(1, min(3, servers)), label="racks")
    return Topology(
        name="case", gpu_types=GPU_TYPES, gpu_server=np.repeat(np.arange(servers), size),
        server_first_gpu=np.concatenate([[0], np.cumsum(size)]),
        server_gpu_type=rng.integers(0, 2, servers),
        server_rack=np.arange(servers) * racks // servers, nic_gbps=np.full(servers, 10.0),
        uplink_gbps=np.full(racks, 20.0), intra_gbps=np.full(servers, 80.0),
    )  # fmt: skip


def _jobs(
    draw: Callable[..., Any], topology: Topology, owner: IntArray, rng: np.random.Generator,
    most: int,
) -> JobTable:  # fmt: skip
    capacity = np.bincount(owner, weights=topology.gpus_per_server).astype(np.int64)
    columns = (
        range(5),  # gap to the job before: 0 makes ties
        [1, 1, 1, 2, 2, 3, 4, 6, 8],
        [0, 0, 1, 2, 3, 5, 8, 8, 13, 40],
        range(PROFILES),
        range(len(capacity)),
    )
    count = draw(st.integers(1, most), label="count")  # drawn alone, sizes would stay small
    size = count * len(columns)
    # A byte a value, in one draw: a draw a value takes longer than playing the case.
    drawn = np.frombuffer(draw(st.binary(min_size=size, max_size=size), label="jobs"), np.uint8)
    gap, gang, duration, profile, home = (
        np.array(column)[each % len(column)]
        for column, each in zip(columns, drawn.reshape(count, -1).T, strict=True)
    )
    grain = draw(st.sampled_from([1.0, 0.7]), label="grain")
    return JobTable(
        job_id=np.array([f"j{i}" for i in range(count)], dtype=object),
        submit_s=np.cumsum(gap) * 1.0, num_gpus=np.minimum(gang, capacity[home]),
        duration_s=duration * grain,
        estimate_s=duration * grain * rng.choice([0.5, 1.0, 2.0], count), profile=profile,
        home=home, measured=np.ones(count, dtype=np.bool_),
    )  # fmt: skip


def _no_physics(topology: Topology) -> Physics:
    plain = np.ones((PROFILES, PROFILES)).tolist()
    known = physics_of(topology, slowdown=plain, compute_s=(1.0, 1.0))
    return replace(known, reference_gpu="p100")


def _physics(topology: Topology, rng: np.random.Generator) -> Physics:
    plain, shape = _no_physics(topology), (len(GPU_TYPES), PROFILES, PROFILES)
    fits = rng.random(shape) < 0.75
    server_s = rng.random((PROFILES, topology.num_servers + 1))
    rack_s = rng.random((PROFILES, topology.num_racks + 1))
    server_s[:, :2] = 0.0
    rack_s[:, :2] = 0.0
    compute_s = 0.5 + rng.random((PROFILES, len(GPU_TYPES)))
    return replace(
        plain,
        catalogue=replace(plain.catalogue, compute_s=compute_s),
        pairs=PairTable(1.0 + rng.random(shape), fits & fits.transpose(0, 2, 1), "random"),
        network=NetworkTables(
            local_s=rng.random((PROFILES, 5)) / 4,
            server_s=server_s,
            rack_s=rack_s,
            nic_factor=np.concatenate([[1.0, 1.0], 1.0 + rng.random(2)]),
            uplink_factor=np.concatenate([[1.0, 1.0], 1.0 + rng.random(1)]),
        ),
    )
