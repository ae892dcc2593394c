"""What jobs ask for and undergo, and servers that come and go, drawn for hypothesis."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sim.arrays import IntArray
from sim.jobs import ANY_TYPE, Attempts, Demands, Elastic, Fates, JobTable, Precedence
from sim.physics.physics import Physics
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
