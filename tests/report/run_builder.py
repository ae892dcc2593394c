"""Runs for tests of reports: from a table of ends, and ones in which everything happens."""

from dataclasses import dataclass, field

import numpy as np

from sim.jobs import Attempts, Fates, JobTable, Precedence, Urgency
from sim.report.run_tables import Recorded, server_names
from sim.report.timeline import blocked_at_arrival
from sim.run import EventLog, Kind, Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import Change, Outages
from sim.topology.topology import contiguous_partitions
from tests.oracle.random_decider import RandomDecider
from tests.sim.worlds import cluster, physics_of, rules_of


@dataclass(frozen=True)
class Job:
    """One job and its attempts (start, end, GPUs); the last attempt ends in FINISH."""

    submit_s: float
    duration_s: float
    attempts: tuple[tuple[float, float, list[int]], ...] = ()
    gpus: int = 1
    finished: bool = True
    measured: bool = True
    home: int = 0
    forwarded_s: tuple[float, ...] = field(default=())
    ends: tuple[Kind, ...] = ()  # how each attempt ended; (): all but the last were preempted
    withdrawn_s: float | None = None  # given up while it waited; while it ran: end in WITHDRAW
    ready_s: float | None = None  # a DAG's child: when its last parent finished


def ends_of(job: Job) -> tuple[Kind, ...]:
    """How each attempt ended."""
    return job.ends or (*[Kind.PREEMPT] * (len(job.attempts) - 1), Kind.FINISH)[: len(job.attempts)]


def events_of(row: int, job: Job) -> list[tuple[float, int, int, int, list[int]]]:
    """(time, order at one instant, kind, row, GPUs) of everything the job did."""
    events = [(job.submit_s, 1, Kind.ARRIVAL, row, [])]
    if job.ready_s is not None:
        events.append((job.ready_s, 0.5, Kind.READY, row, []))
    if job.withdrawn_s is not None:
        events.append((job.withdrawn_s, 2, Kind.WITHDRAW, row, []))
    events += [(time_s, 3, Kind.FORWARD, row, []) for time_s in job.forwarded_s]
    attempts = zip(job.attempts, ends_of(job), strict=True)
    for number, ((start_s, end_s, gpus), kind) in enumerate(attempts):
        events.append((start_s, 4, Kind.START, row, gpus))
        if number == len(job.attempts) - 1 and not job.finished:
            continue
        order = 5 if end_s == start_s else (0 if kind == Kind.FINISH else 2)
        events.append((end_s, order, kind, row, gpus))
    return events


def log_of(jobs: list[Job], servers: tuple[tuple[float, Kind, list[int]], ...]) -> EventLog:
    """The event log, in the order of the contract; `servers` are (time, kind, GPUs)."""
    rows = [e for row, job in enumerate(jobs) for e in events_of(row, job)]
    rows += [(time_s, 2.5, kind, -1, gpus) for time_s, kind, gpus in servers]
    rows.sort(key=lambda e: (e[0], e[1], e[3]))
    return EventLog(
        time_s=np.array([e[0] for e in rows], dtype=float),
        kind=np.array([e[2] for e in rows], dtype=np.int64),
        job=np.array([e[3] for e in rows], dtype=np.int64),
        partition=np.array([jobs[e[3]].home if e[3] >= 0 else 0 for e in rows], dtype=np.int64),
        gpus=tuple(np.array(e[4], dtype=np.int64) for e in rows),
    )


def table_of(jobs: list[Job]) -> JobTable:
    """The job table; estimates unknown, profile 0."""
    return JobTable(
        job_id=np.array([f"job-{row}" for row in range(len(jobs))], dtype=object),
        submit_s=np.array([job.submit_s for job in jobs], dtype=float),
        num_gpus=np.array([job.gpus for job in jobs], dtype=np.int64),
        duration_s=np.array([job.duration_s for job in jobs], dtype=float),
        estimate_s=np.full(len(jobs), np.nan),
        profile=np.zeros(len(jobs), dtype=np.int64),
        home=np.array([job.home for job in jobs], dtype=np.int64),
        measured=np.array([job.measured for job in jobs], dtype=bool),
    )


def finish_of(job: Job) -> float:
    """When it finished; NaN if it did not, or was withdrawn."""
    done = job.finished and job.attempts and ends_of(job)[-1] == Kind.FINISH
    return job.attempts[-1][1] if done else np.nan


def build_run(
    jobs: list[Job],
    servers: int,
    gpus_per_server: int,
    partitions: int,
    server_events: tuple[tuple[float, Kind, list[int]], ...] = (),
    gpu_types: tuple[str, ...] = ("v100",),
) -> Run:
    """A run of `jobs` (ascending in submission); 0.5 s of wall time, 0.2 s of it deciding."""
    topology = cluster(servers, gpus_per_server, servers_per_rack=2, types=gpu_types)
    return Run(
        scheduler="by_hand",
        jobs=table_of(jobs),
        topology=topology,
        partition_of_server=contiguous_partitions(topology, partitions),
        start_s=np.array([job.attempts[0][0] if job.attempts else np.nan for job in jobs]),
        finish_s=np.array([finish_of(job) for job in jobs]),
        run_s=np.array([float(sum(end - start for start, end, _ in job.attempts)) for job in jobs]),
        preemptions=np.array([ends_of(job).count(Kind.PREEMPT) for job in jobs], dtype=np.int64),
        forwards=np.array([len(job.forwarded_s) for job in jobs], dtype=np.int64),
        partition=np.array([job.home for job in jobs], dtype=np.int64),
        log=log_of(jobs, server_events),
        decisions=4,
        decision_s=0.2,
        loop_wall_s=0.5,
    )


def recorded_of(run: Run) -> Recorded:
    """What `read_recorded` gives back of a run's folder."""
    elastic = run.jobs.elastic
    return Recorded(
        log=run.log,
        job_id=run.jobs.job_id,
        least_gpus=run.jobs.num_gpus if elastic is None else elastic.least_gpus,
        most_gpus=run.jobs.num_gpus if elastic is None else elastic.most_gpus,
        blocked=blocked_at_arrival(run),
        started=np.isfinite(run.start_s),
        ended=np.isfinite(run.finish_s),
        server_name=server_names(run.topology),
        server_rack=run.topology.server_rack,
        server_first_gpu=run.topology.server_first_gpu,
    )


def log_with(log: EventLog, keep: np.ndarray) -> EventLog:
    """The log of the events that are kept."""
    return EventLog(
        time_s=log.time_s[keep],
        kind=log.kind[keep],
        job=log.job[keep],
        partition=log.partition[keep],
        gpus=tuple(gpus for gpus, kept in zip(log.gpus, keep, strict=True) if kept),
    )


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
