"""What small random worlds may have besides: lives of jobs and servers, links, mixes, hosts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sim.arrays import FloatArray, IntArray
from sim.jobs import ANY_TYPE, Attempts, Demands, Elastic, Fates, JobTable, Precedence
from sim.physics.catalogue import HostNeeds, HostTables
from sim.physics.link_network import DUTY, K_WAY, MAX_MIN, make_link_network
from sim.physics.mix_table import MixTable, PairTable, mix_table
from sim.physics.physics import Physics
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, Traffic
from sim.topology.generators import bcube, fat_tree, leaf_spine, vl2
from sim.topology.outages import NO_OUTAGES, Change, Outages
from sim.topology.topology import Topology

Draw = Callable[..., Any]


def with_cores_and_memory(draw: Draw, topology: Topology, rng: np.random.Generator) -> Topology:
    servers, size = topology.num_servers, topology.gpus_per_server
    if not draw(st.booleans(), label="cores and memory"):
        return topology
    return replace(
        topology,
        server_cpu_milli=size * rng.choice([1000, 2000, 3000], servers),
        server_memory_mib=size * rng.choice([80, 160], servers),
    )


def with_measured_scaling(draw: Draw, physics: Physics, rng: np.random.Generator) -> Physics:
    if not draw(st.booleans(), label="measured scaling"):
        return physics
    speedup = np.cumsum(rng.random((len(physics.catalogue.names), 4)), axis=1)
    speedup[:, 1] = 1.0
    speedup[rng.random(speedup.shape) < 0.3] = np.nan
    return replace(physics, catalogue=replace(physics.catalogue, speedup=speedup))


def checkpoint_rules(draw: Draw) -> dict[str, Any]:
    over = draw(st.sampled_from([None, None, 1.0, 1.5, 2.0]), label="oversubscription")
    return {
        "gpu_oversubscription": over,
        "checkpoint_work_s": draw(st.sampled_from([None, 1.0, 3.0, 0.7]), label="checkpoints"),
        "checkpoint_s": draw(st.sampled_from([0.0, 0.25]), label="checkpoint_s"),
        "preempt_saves": draw(st.booleans(), label="preempt_saves"),
    }


def with_traits(
    draw: Draw, jobs: JobTable, topology: Topology, owner: IntArray, rng: np.random.Generator
) -> JobTable:
    """The table with some of the traits; unless it is wild, every job fits its home."""
    on = {
        name: draw(st.booleans(), label=name)
        for name in ("demands", "elastic", "fates", "attempts", "dag", "speed")
    }
    if on["demands"]:
        jobs = replace(jobs, demands=_demands(len(jobs), rng))
        if not draw(st.sampled_from([False] * 9 + [True]), label="wild"):
            jobs = _tamed(jobs, topology, owner)
    return replace(
        jobs,
        elastic=_elastic(jobs, rng) if on["elastic"] else None,
        fates=_fates(len(jobs), rng) if on["fates"] else None,
        attempts=_attempts(jobs, rng) if on["attempts"] else None,
        precedence=_dag(len(jobs), rng) if on["dag"] else None,
        speed=rng.choice([0.3, 1.0, 2.5], len(jobs)) if on["speed"] else None,
    )


def _demands(count: int, rng: np.random.Generator) -> Demands:
    return Demands(
        gpu_milli=rng.choice([1000, 1000, 500, 300, 250], count),
        cpu_milli=rng.choice([0, 700, 1000, 2500], count),
        memory_mib=rng.choice([0, 50, 100], count),
        type_mask=rng.choice([ANY_TYPE, ANY_TYPE, 1, 2, 3], count),
    )


def _tamed(jobs: JobTable, topology: Topology, owner: IntArray) -> JobTable:
    """Gangs no larger than their home can hold at its emptiest; demands dropped where that is 0."""
    demands, gang = jobs.demands, jobs.num_gpus.copy()
    columns = {name: getattr(demands, name).copy() for name in vars(demands)}
    for row in range(len(jobs)):
        held = 0
        for server in np.flatnonzero(owner == jobs.home[row]).tolist():
            if (int(demands.type_mask[row]) >> int(topology.server_gpu_type[server])) & 1:
                held += _workers(topology, server, demands, row)
        if held == 0:
            columns["type_mask"][row] = ANY_TYPE
            columns["cpu_milli"][row] = columns["memory_mib"][row] = 0
        else:
            gang[row] = min(gang[row], held)
    return replace(jobs, demands=Demands(**columns), num_gpus=gang)


def _workers(topology: Topology, server: int, demands: Demands, row: int) -> int:
    most = int(topology.gpus_per_server[server])
    for whole, part in (
        (topology.server_cpu_milli, demands.cpu_milli[row]),
        (topology.server_memory_mib, demands.memory_mib[row]),
    ):
        if whole is not None and part > 0:
            most = min(most, int(whole[server] // part))
    return most


def _elastic(jobs: JobTable, rng: np.random.Generator) -> Elastic:
    less, more = rng.integers(0, 3, len(jobs)), rng.integers(0, 4, len(jobs))
    return Elastic(np.maximum(1, jobs.num_gpus - less), jobs.num_gpus + more)


def _fates(count: int, rng: np.random.Generator) -> Fates:
    never = np.inf
    return Fates(
        outcome=rng.choice([0, 0, 0, 1, 2], count),
        withdraw_s=rng.choice([never, never, never, 0.0, 1.0, 5.0, 20.0], count),
    )


def _attempts(jobs: JobTable, rng: np.random.Generator) -> Attempts:
    points: list[list[float]] = []
    for work_s in jobs.duration_s.tolist():
        shares = [share for share in (0.25, 0.5, 0.9) if work_s > 0 and rng.random() < 0.2]
        points.append([share * work_s for share in shares])
    first = np.concatenate([[0], np.cumsum([len(each) for each in points])]).astype(np.int64)
    return Attempts(first, np.array([s for each in points for s in each], dtype=np.float64))


def _dag(count: int, rng: np.random.Generator) -> Precedence:
    """Parents are drawn from the jobs before in some order, which need not be that of rows."""
    order = rng.permutation(count) if rng.random() < 0.5 else np.arange(count)
    parents: list[list[int]] = [[] for _ in range(count)]
    for at in range(1, count):
        if rng.random() < 0.4:
            wanted = min(at, int(rng.integers(1, 4)))
            parents[order[at]] = sorted(rng.choice(order[:at], wanted, replace=False).tolist())
    first = np.concatenate([[0], np.cumsum([len(each) for each in parents])]).astype(np.int64)
    flat = np.array([row for each in parents for row in each], dtype=np.int64)
    return Precedence(first, flat, np.zeros(count, dtype=np.int64))


def outages_of(draw: Draw, topology: Topology) -> Outages:
    """Overlapping reasons to be away, many of them at whole seconds; a few for good."""
    absence = st.tuples(
        st.integers(0, topology.num_servers - 1),
        st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 60.0]),
        st.sampled_from([0.0, 1.0, 2.0, 4.5, 10.0, 30.0, 1000.0]),
        st.sampled_from([Change.FAIL, Change.CLOSE]),
    )
    absences = draw(st.lists(absence, max_size=8), label="outages")
    last = draw(st.sampled_from([True] * 7 + [False]), label="all come back")
    rows: list[tuple[float, int, int]] = []
    for number, (server, at_s, for_s, change) in enumerate(absences):
        rows.append((at_s, server, change))
        if last or number > 0:
            rows.append((at_s + for_s, server, Change.OPEN))
    if not rows:
        return NO_OUTAGES
    rows.sort(key=lambda row: row[0])  # stable: nothing comes back before it went
    at_s, server, change = (np.array(column) for column in zip(*rows, strict=True))
    return Outages(at_s.astype(np.float64), server.astype(np.int64), change.astype(np.int64))


INSIDE = {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 2, "nvlink_gbps": 300.0,
          "pcie_gbps": 90.0, "socket_gbps": 40.0}  # fmt: skip
BYTES_A_GBPS = 1e9 / 8.0  # what 1 Gbps moves in a second


def linked_topology(draw: Draw, gpu_types: tuple[str, ...], equal_servers: bool) -> Topology:
    """3 to 6 servers of 1 to 4 GPUs on any of the four fabrics."""
    size = draw(st.sampled_from([[4], [2], [1]] if equal_servers else [[4], [1, 3], [2, 2, 4]]),
                label="sizes")  # fmt: skip
    inside = INSIDE if size == [4] and draw(st.booleans(), label="inside") else None
    plain: dict[str, Any] = {
        "name": "case", "gpus_per_server": size, "gpu_types": list(gpu_types),
        "intra_gbps": 80.0, "inside": inside,
    }  # fmt: skip
    fabric = draw(st.sampled_from(["leaf-spine", "fat-tree", "vl2", "bcube"]), label="fabric")
    if fabric == "fat-tree":
        servers = draw(st.integers(3, 6), label="servers")
        return fat_tree(k=4, servers=servers, nic_gbps=10.0, fabric_gbps=8.0, **plain)
    if fabric == "vl2":
        return vl2(aggregation_ports=4, intermediate_ports=2, servers_per_rack=2, nic_gbps=10.0,
                   fabric_gbps=7.0, **plain)  # fmt: skip
    if fabric == "bcube":
        return bcube(n=2, k=1, port_gbps=10.0, **plain)
    return leaf_spine(
        servers=draw(st.integers(3, 6), label="servers"), servers_per_rack=2, nic_gbps=10.0,
        oversubscription=draw(st.sampled_from([1.0, 3.0])), spines=2, **plain,
    )  # fmt: skip


def with_links(
    draw: Draw, physics: Physics, topology: Topology, rng: np.random.Generator
) -> Physics:
    """The physics with links that jobs share by one of the three rules."""
    network = make_link_network(
        sharing=draw(st.sampled_from([MAX_MIN, K_WAY, DUTY]), label="sharing"),
        overlap_frac=draw(st.sampled_from([0.0, 0.25]), label="overlap"), alpha_local_s=1e-5,
        alpha_server_s=5e-5, eta_frac=0.3, traffic=_traffic(len(physics.catalogue.names), rng),
        catalogue=physics.catalogue, topology=topology,
    )  # fmt: skip
    return replace(physics, links=network)


def _traffic(profiles: int, rng: np.random.Generator) -> Traffic:
    def sizes() -> np.ndarray:
        return rng.choice([0.0, 0.3, 1.0, 4.0], profiles) * BYTES_A_GBPS

    return Traffic(
        pattern=rng.choice([RING, RING, PARAMETER_SERVER, MIX], profiles), grad_bytes=sizes(),
        ps_count=rng.integers(1, 4, profiles), stages=rng.choice([1, 2, 3], profiles),
        tensor_width=rng.choice([1, 2], profiles), activation_bytes=sizes(), tensor_bytes=sizes(),
    )  # fmt: skip


@dataclass(frozen=True)
class RandomMixes:
    """Mixes that their pairs say nothing of, but that each is at least as slow as its parts."""

    most_aggressors: int
    seed: int

    def table(self, pairs: PairTable) -> MixTable:
        rng = np.random.default_rng(self.seed)

        def predict(kind: int, victim: int, mixes: IntArray) -> FloatArray:
            del kind, victim
            return 1.0 + 2.0 * rng.random(len(mixes))

        return mix_table(pairs, self.most_aggressors, predict)


def with_mixes(draw: Draw, physics: Physics) -> Physics:
    """Tables of 2 or 3 aggressors; some pairs do nothing to each other."""
    seed = draw(st.integers(0, 2**32 - 1), label="mixes")
    rng = np.random.default_rng(seed)
    excess = (physics.pairs.slowdown - 1.0) * (rng.random(physics.pairs.slowdown.shape) < 0.7)
    return replace(
        physics,
        pairs=replace(physics.pairs, slowdown=1.0 + excess),
        mix_law=RandomMixes(draw(st.integers(2, 3), label="most aggressors"), seed),
    )


def with_host(draw: Draw, physics: Physics, topology: Topology) -> Physics:
    """Servers of few cores and little PCIe; some workers want nothing of it, some wait for it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="host"))
    count, gpus = len(physics.catalogue.names), topology.gpus_per_server
    return replace(
        physics,
        host=HostTables(
            needs=HostNeeds(
                cpu_milli=rng.choice([0, 1000, 3000, 7000], count),
                pcie_mbs=rng.choice([0, 500, 9000], count),
                wait_frac=rng.choice([0.0, 0.3, 1.0], count),
            ),
            server_cpu_milli=gpus * rng.choice([1000, 3000], len(gpus)),
            server_pcie_mbs=gpus * rng.choice([1500, 4000], len(gpus)),
        ),
    )
