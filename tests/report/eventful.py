"""Runs of the real kernel in which everything happens: failures, leases, outages, DAGs, sharing."""

import numpy as np

from sim.jobs import Attempts, Fates, JobTable, Precedence, Urgency
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import Change, Outages
from sim.topology.topology import contiguous_partitions
from tests.oracle.random_decider import RandomDecider
from tests.sim.worlds import cluster, physics_of, rules_of

SERVERS, GPUS, TENANTS = 4, 4, 2


def jobs_of(rng: np.random.Generator, count: int) -> JobTable:
    """Jobs with failures, users who give up, deadlines, and two chains of a DAG."""
    submit_s = np.sort(rng.integers(0, 400, count)).astype(np.float64)
    duration_s = rng.integers(0, 200, count).astype(np.float64)
    fails = [
        np.sort(rng.uniform(0, length_s, rng.integers(0, 3))) if length_s > 0 else np.empty(0)
        for length_s in duration_s
    ]
    parents = [[] for _ in range(count)]
    for child in range(count // 2, count):
        if rng.random() < 0.4:
            parents[child] = [int(rng.integers(0, child))]
    sizes = [len(each) for each in parents]
    return JobTable(
        job_id=np.array([f"j{row}" for row in range(count)], dtype=object),
        submit_s=submit_s,
        num_gpus=rng.integers(1, 9, count),
        duration_s=duration_s,
        estimate_s=np.full(count, np.nan),
        profile=rng.integers(0, 2, count),
        home=np.zeros(count, dtype=np.int64),
        measured=np.ones(count, dtype=np.bool_),
        fates=Fates(
            outcome=rng.choice([0, 0, 0, 1, 2], count),
            withdraw_s=np.where(rng.random(count) < 0.2, rng.integers(1, 400, count), np.inf),
        ),
        urgency=Urgency(np.zeros(count, dtype=np.int64), submit_s + 300.0),
        attempts=Attempts(
            first=np.concatenate([[0], np.cumsum([len(each) for each in fails])]),
            fail_at_s=np.concatenate([*fails, np.empty(0)]),
        ),
        precedence=Precedence(
            first=np.concatenate([[0], np.cumsum(sizes)]),
            parents=np.array([p for each in parents for p in each], dtype=np.int64),
            workflow=np.where(np.arange(count) % 3 == 0, 0, -1),
        ),
    )


def outages_of(rng: np.random.Generator, count: int) -> Outages:
    """Servers that fail or close and open again later; the pairs may overlap."""
    rows = []
    for _ in range(count):
        server, at_s = int(rng.integers(0, SERVERS)), float(rng.integers(0, 600))
        rows.append((at_s, server, int(rng.choice([Change.FAIL, Change.CLOSE]))))
        rows.append((at_s + float(rng.integers(1, 200)), server, int(Change.OPEN)))
    rows.sort(key=lambda row: row[0])
    return Outages(
        np.array([r[0] for r in rows]), np.array([r[1] for r in rows]),
        np.array([r[2] for r in rows]),
    )  # fmt: skip


def eventful_run(seed: int, jobs: int = 30) -> Run:
    """One run; equal seeds give equal runs."""
    rng = np.random.default_rng(seed)
    topology = cluster(SERVERS, GPUS, servers_per_rack=2)
    physics = physics_of(
        topology, slowdown=((1.2, 1.5), (1.1, 1.3)), server_s=(0.0, 0.0, 0.1, 0.2, 0.3)
    )
    simulator = Simulator(
        jobs=jobs_of(rng, jobs),
        topology=topology,
        physics=physics,
        belief=physics,
        partition_of_server=contiguous_partitions(topology, 1),
        rules=rules_of(
            max_tenants=TENANTS, restart_s=3.0, checkpoint_work_s=20.0, checkpoint_s=1.0,
            preempt_saves=bool(rng.integers(0, 2)),
        ),
        outages=outages_of(rng, 5),
    )  # fmt: skip
    return simulate(simulator, RandomDecider(whims=60), seed, None)
