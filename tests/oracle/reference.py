"""The reference simulator: docs/semantics.md in plain objects, with nothing kept up to date.

It keeps lists of objects, looks for the next event by looking at everything, and measures every
running job's speed anew after each instant. It is slow, and short enough to be read and believed;
the kernel has to agree with it event by event.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision
from sim.event_log import Kind
from sim.jobs import JobTable
from sim.outages import Outages
from sim.physics.physics import Physics
from sim.protocols import Scheduler
from sim.rules import Rules
from sim.signals import Signal
from sim.topology.topology import Topology
from sim.view import ClusterView, ViewMaker


class Stuck(Exception):
    """Jobs wait and nothing will ever happen."""


@dataclass(frozen=True)
class Event:
    """One line of the log."""

    time_s: float
    kind: Kind
    job: int
    partition: int
    gpus: tuple[int, ...]


@dataclass
class ReferenceJob:
    """One job and all that is known of it."""

    row: int
    submit_s: float
    gang: int
    work_s: float
    profile: int
    partition: int
    reference_step_s: float
    state: str = "pending"
    forwards: int = 0
    preemptions: int = 0
    progress_s: float = 0.0  # work done up to rated_s
    speed: float = 0.0  # since rated_s
    rated_s: float = 0.0
    finish_due_s: float = math.inf
    started_s: float = math.nan
    held_s: float = 0.0  # time on GPUs in earlier attempts
    served_gpu_s: float = 0.0  # the same without restarts, times GPUs
    resume_s: float = 0.0  # when this attempt makes progress
    lease_end_s: float = math.inf
    left_s: float = -math.inf  # when it last gave GPUs back
    first_start_s: float = math.nan
    finish_s: float = math.nan
    gpus: list[int] = field(default_factory=list)

    def done_s(self, now_s: float) -> float:
        """Work done by now; none while a restart is under way."""
        return self.progress_s + self.speed * max(0.0, now_s - self.rated_s)

    def attained_gpu_s(self, now_s: float) -> float:
        """Service, restarts left out: they do the job no good."""
        if self.state != "running":
            return self.served_gpu_s
        return self.served_gpu_s + max(0.0, now_s - self.resume_s) * self.gang

    def book(self, now_s: float) -> None:
        """Count the work done at the speed so far."""
        if now_s > self.rated_s:
            self.progress_s = min(self.done_s(now_s), self.work_s)
            self.rated_s = now_s


def entry(row: list[float], index: int) -> float:
    """Tables go on for ever with their last entry."""
    return row[min(index, len(row) - 1)]


class ReferenceSimulator:
    """One run; takes what `sim.simulator.Simulator` takes."""

    def __init__(
        self,
        *,
        jobs: JobTable,
        topology: Topology,
        physics: Physics,
        belief: Physics,
        partition_of_server: IntArray,
        rules: Rules,
        outages: Outages,
    ) -> None:
        self.table, self.topology, self.belief = jobs, topology, belief
        self.max_tenants, self.restart_s = rules.max_tenants, rules.restart_s
        self.max_forwards = rules.max_forwards
        self.outages = outages
        self.compute_s = physics.catalogue.compute_s.tolist()
        self.slowdown = physics.pairs.slowdown.tolist()
        self.feasible = physics.pairs.feasible.tolist()
        self.network = physics.network
        names = physics.catalogue.gpu_types
        self.kind_of_server = [
            names.index(topology.gpu_types[kind]) for kind in topology.server_gpu_type.tolist()
        ]
        self.reference_kind = names.index(physics.reference_gpu)
        self.partition_of_server = partition_of_server.tolist()
        self.server_of = topology.gpu_server.tolist()
        self.rack_of = topology.server_rack.tolist()
        self.now_s, self.wake_s = 0.0, math.inf
        self.events: list[Event] = []
        self.tenants: list[list[ReferenceJob]] = [[] for _ in self.server_of]  # in order of start
        self.jobs = [self._job(row) for row in range(len(jobs))]

    # --- Time -------------------------------------------------------------------------------

    def run(self, scheduler: Scheduler, seed: int) -> list[Event]:
        """To the end of the trace; raises Stuck where jobs would wait for ever."""
        scheduler.reset(seed)
        again = False
        while again or self._advance():
            decision = scheduler.decide(self._view(scheduler.needs))
            self._apply(decision)
            again = decision.again
        return self.events

    def _in_state(self, state: str) -> list[ReferenceJob]:
        return [job for job in self.jobs if job.state == state]

    def _advance(self) -> bool:
        while True:
            times = [self.wake_s]
            times += [job.finish_due_s for job in self._in_state("running")]
            times += [job.submit_s for job in self._in_state("pending")]
            if math.isinf(min(times)):
                if self._in_state("queued"):
                    raise Stuck
                return False
            self.now_s = min(times)
            self._finish_and_admit()
            self._rate_everybody()
            woken = self.wake_s <= self.now_s
            if woken:
                self.wake_s = math.inf
            if woken or self._in_state("queued"):
                return True

    def _finish_and_admit(self) -> None:
        due = [job for job in self._in_state("running") if job.finish_due_s <= self.now_s]
        for job in sorted(due, key=lambda job: (job.finish_due_s, job.row)):
            self._leave(job, "finished")
            job.progress_s = job.work_s
            job.finish_s = self.now_s
            self._log(Kind.FINISH, job, job.gpus)
        for job in self._in_state("pending"):
            if job.submit_s <= self.now_s:
                job.state = "queued"
                self._log(Kind.ARRIVAL, job, [])

    def _log(self, kind: Kind, job: ReferenceJob, gpus: list[int]) -> None:
        self.events.append(Event(self.now_s, kind, job.row, job.partition, tuple(gpus)))

    # --- Decisions --------------------------------------------------------------------------

    def _apply(self, decision: Decision) -> None:
        """The decision is legal: the kernel's own checks are tested elsewhere."""
        for row in decision.preempts:
            job = self.jobs[row]
            self._leave(job, "queued")
            job.preemptions += 1
            self._log(Kind.PREEMPT, job, job.gpus)
        for forward in decision.forwards:
            job = self.jobs[forward.job]
            assert job.state == "queued" and job.forwards < self.max_forwards
            job.partition = forward.partition
            job.forwards += 1
            self._log(Kind.FORWARD, job, [])
        for start in decision.starts:
            self._start(self.jobs[start.job], start.gpus.tolist())
        self._rate_everybody()
        self.wake_s = math.inf if decision.wake_s is None else decision.wake_s

    def _start(self, job: ReferenceJob, gpus: list[int]) -> None:
        assert job.state == "queued" and len(set(gpus)) == len(gpus) == job.gang
        renewal = job.left_s == self.now_s and job.gpus == gpus
        job.gpus = gpus
        for gpu in gpus:
            assert len(self.tenants[gpu]) < self.max_tenants
            assert self.partition_of_server[self.server_of[gpu]] == job.partition
            self.tenants[gpu].append(job)
        job.state = "running"
        job.speed = 0.0
        job.started_s = self.now_s
        if renewal:  # it goes on as if it had never stopped
            job.resume_s = max(self.now_s, job.resume_s)
        else:
            job.resume_s = self.now_s + (self.restart_s if job.preemptions else 0.0)
        job.rated_s = job.resume_s
        if math.isnan(job.first_start_s):
            job.first_start_s = self.now_s
        self._log(Kind.START, job, gpus)

    def _leave(self, job: ReferenceJob, state: str) -> None:
        job.book(self.now_s)
        job.held_s += self.now_s - job.started_s
        job.served_gpu_s += max(0.0, self.now_s - job.resume_s) * job.gang
        job.left_s = self.now_s
        job.state = state
        job.finish_due_s = math.inf
        for gpu in job.gpus:
            self.tenants[gpu].remove(job)

    # --- Physics ----------------------------------------------------------------------------

    def _job(self, row: int) -> ReferenceJob:
        gang, profile = int(self.table.num_gpus[row]), int(self.table.profile[row])
        largest = max(self.server_of.count(server) for server in set(self.server_of))
        servers = math.ceil(gang / largest)
        racks = math.ceil(servers / max(self.rack_of.count(rack) for rack in set(self.rack_of)))
        comm_s = self._comm_s(profile, min(gang, largest), servers, racks, 1, 1)
        return ReferenceJob(
            row=row,
            submit_s=float(self.table.submit_s[row]),
            gang=gang,
            work_s=float(self.table.duration_s[row]),
            profile=profile,
            partition=int(self.table.home[row]),
            reference_step_s=self.compute_s[profile][self.reference_kind] + comm_s,
        )

    def _comm_s(
        self, profile: int, local: int, servers: int, racks: int, on_nic: int, on_uplink: int
    ) -> float:
        tables = self.network
        local_s = entry(tables.local_s[profile].tolist(), local)
        server_s = entry(tables.server_s[profile].tolist(), servers)
        rack_s = entry(tables.rack_s[profile].tolist(), racks)
        nic, uplink = tables.nic_factor.tolist(), tables.uplink_factor.tolist()
        return local_s + server_s * entry(nic, on_nic) + rack_s * entry(uplink, on_uplink)

    def _servers(self, job: ReferenceJob) -> set[int]:
        return {self.server_of[gpu] for gpu in job.gpus}

    def _racks(self, job: ReferenceJob) -> set[int]:
        return {self.rack_of[server] for server in self._servers(job)}

    def _sharers(self, places: Callable[[ReferenceJob], set[int]], job: ReferenceJob) -> int:
        """Jobs that span several of these places, on the busiest one of `job`."""
        wide = [places(other) for other in self._in_state("running") if len(places(other)) > 1]
        return max(1, *(sum(1 for spans in wide if place in spans) for place in places(job)))

    def _speed(self, job: ReferenceJob) -> float:
        worst_s = 0.0
        for gpu in job.gpus:
            kind = self.kind_of_server[self.server_of[gpu]]
            slow = 1.0
            for other in self.tenants[gpu]:
                if other is not job:
                    slow += self.slowdown[kind][job.profile][other.profile] - 1.0
            worst_s = max(worst_s, self.compute_s[job.profile][kind] * slow)
        servers = [self.server_of[gpu] for gpu in job.gpus]
        local = max(servers.count(server) for server in servers)
        comm_s = self._comm_s(
            job.profile, local, len(self._servers(job)), len(self._racks(job)),
            self._sharers(self._servers, job), self._sharers(self._racks, job),
        )  # fmt: skip
        return job.reference_step_s / (worst_s + comm_s)

    def _rate_everybody(self) -> None:
        for job in self._in_state("running"):
            speed = self._speed(job)
            if speed != job.speed:
                job.book(self.now_s)
                job.speed = speed
                job.finish_due_s = job.rated_s + (job.work_s - job.progress_s) / speed

    # --- Views ------------------------------------------------------------------------------

    def _view(self, needs: Signal) -> ClusterView:
        """What the scheduler sees, from arrays made for this one view."""
        return ViewMaker(
            state=self._columns(),  # type: ignore[arg-type]
            jobs=self.table,
            topology=self.topology,
            belief=self.belief,
            max_forwards=self.max_forwards,
            granted=needs,
        ).view()

    def _columns(self) -> SimpleNamespace:
        queued = [job.row for job in self._in_state("queued")]
        running = [job.row for job in self._in_state("running")]
        gangs = [job.gang for job in self.jobs]
        slot = np.concatenate([[0], np.cumsum(gangs)])
        placed = np.full(slot[-1], -1)
        for job in self._in_state("running"):
            placed[slot[job.row] : slot[job.row + 1]] = job.gpus
        tenant = np.full((len(self.tenants), self.max_tenants), -1)
        for gpu, holders in enumerate(self.tenants):
            tenant[gpu, : len(holders)] = [job.row for job in holders]
        first = self.topology.server_first_gpu.tolist()
        spans = range(len(self.rack_of))
        free = [sum(not self.tenants[g] for g in range(first[s], first[s + 1])) for s in spans]

        def column(value: Callable[[ReferenceJob], Any]) -> np.ndarray:
            return np.array([value(job) for job in self.jobs])

        def busy(places: Callable[[ReferenceJob], set[int]], number: int) -> np.ndarray:
            wide = [places(job) for job in self._in_state("running") if len(places(job)) > 1]
            return np.array([sum(place in of for of in wide) for place in range(number)])

        count = len(queued)
        return SimpleNamespace(
            world={
                "now_s": [self.now_s],
                "queue_first": [0],
                "num_queued": [count],
                "num_running": [len(running)],
                "gpu_limit_milli": [1000 * self.max_tenants],
                "num_partitions": [max(self.partition_of_server) + 1],
            },
            queue=np.array(queued, dtype=np.int64),
            running=np.array(running, dtype=np.int64),
            job={
                "submit_s": column(lambda job: job.submit_s),
                "num_gpus": np.array(gangs),
                "held": np.array(gangs),
                "work_s": column(lambda job: job.work_s),
                "profile": column(lambda job: job.profile),
                "partition": column(lambda job: job.partition),
                "forwards": column(lambda job: job.forwards),
                "preemptions": column(lambda job: job.preemptions),
                "restarts": column(lambda job: job.preemptions),
                "attained_gpu_s": column(lambda job: job.attained_gpu_s(self.now_s)),
                "resume_s": column(lambda job: job.resume_s),
                "lease_end_s": column(lambda job: job.lease_end_s),
                "seen_progress_s": column(
                    lambda job: job.done_s(self.now_s) if job.state == "running" else job.progress_s
                ),
                "first": slot[:-1],
            },
            gpu={
                "tenants": np.array([len(holders) for holders in self.tenants]),
                "milli": np.array([1000 * len(holders) for holders in self.tenants]),
            },
            tenant=tenant,
            server={
                "partition": np.array(self.partition_of_server),
                "type": np.array(self.kind_of_server),
                "nic_jobs": busy(self._servers, len(self.rack_of)),
                "closed": np.zeros(len(self.rack_of), dtype=np.int64),
                "cpu_free_milli": np.zeros(len(self.rack_of), dtype=np.int64),
                "memory_free_mib": np.zeros(len(self.rack_of), dtype=np.int64),
            },
            server_free=np.array(free),
            rack={"uplink_jobs": busy(self._racks, self.topology.num_racks)},
            placed=placed,
        )
