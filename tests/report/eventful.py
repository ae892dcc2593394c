"""Runs of the real kernel in which everything happens: failures, leases, outages, DAGs, sharing."""

import numpy as np

from sim.decision import Decision, Start
from sim.jobs import Attempts, Fates, JobTable, Precedence, Urgency
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import Change, Outages
from sim.topology.topology import contiguous_partitions
from sim.view import Signal
from tests.sim.worlds import cluster, physics_of, rules_of

SERVERS, GPUS, TENANTS = 4, 4, 2


class Restless:
    """Starts what fits at random, with or without a lease, and preempts now and then."""

    name = "restless"
    needs = Signal.NONE

    def reset(self, seed: int) -> None:
        """Start the random stream anew."""
        self._rng = np.random.default_rng(seed)

    def decide(self, view) -> Decision:
        """Random legal orders; a job that waits alone is always started if it fits."""
        rng = self._rng
        preempts = tuple(view.running[rng.random(len(view.running)) < 0.1].tolist())
        closed = view.server_closed[view.topology.gpu_server] > 0
        room = {
            gpu: TENANTS - int(view.tenants[gpu])
            for gpu in range(len(view.tenants))
            if not closed[gpu]
        }
        starts = []
        for job in view.queued.tolist():
            free = [gpu for gpu, places in room.items() if places > 0]
            gang = int(view.jobs.num_gpus[job])
            if len(free) < gang:
                continue
            gpus = rng.permutation(free)[:gang]
            for gpu in gpus.tolist():
                room[gpu] -= 1
            lease_s = float(rng.integers(5, 60)) if rng.random() < 0.5 else None
            starts.append(Start(job, gpus.astype(np.int64), lease_s))
        waits = len(starts) < len(view.queued)
        wake_s = view.now_s + 50.0 if waits else None
        return Decision(starts=tuple(starts), preempts=preempts, wake_s=wake_s)


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
    return simulate(simulator, Restless(), seed, None)
