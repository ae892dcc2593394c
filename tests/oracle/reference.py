"""The reference simulator: docs/reference/semantics.md in plain objects, nothing kept up to date.

It keeps lists of objects, looks for the next event by looking at everything, and measures every
running job's speed anew after each instant. It is slow, and short enough to be read and believed;
the kernel has to agree with it event by event.
"""

import math

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.jobs import JobTable
from sim.physics.physics import Physics
from sim.protocols import Scheduler
from sim.run import Kind, Rules
from sim.topology.outages import Change, Outages
from sim.topology.topology import Topology
from tests.oracle.reference_job import Event, ReferenceJob, reference_jobs
from tests.oracle.reference_physics import ReferencePhysics, ReferenceServers, Tenants
from tests.oracle.reference_view import reference_view


class Stuck(Exception):
    """Jobs wait and nothing will ever happen."""


class ReferenceSimulator:
    """One run; takes what `sim.simulator.Simulator` takes."""

    def __init__(
        self, *, jobs: JobTable, topology: Topology, physics: Physics, belief: Physics,
        partition_of_server: IntArray, rules: Rules, outages: Outages,
    ) -> None:  # fmt: skip
        self.table, self.topology, self.belief, self.rules = jobs, topology, belief, rules
        self.partition_of_server = partition_of_server.tolist()
        self.physics = ReferencePhysics(topology, physics, rules)
        self.servers = ReferenceServers(topology)
        self.changes = list(
            zip(outages.at_s.tolist(), outages.server.tolist(), outages.change.tolist(),
                strict=True)
        )  # fmt: skip
        self.now_s, self.wake_s = 0.0, math.inf
        self.events: list[Event] = []
        self.tenants: Tenants = [[] for _ in self.servers.server_of]
        self.jobs = reference_jobs(jobs)

    def in_state(self, *states: str) -> list[ReferenceJob]:
        return [job for job in self.jobs if job.state in states]

    def _children(self, parent: ReferenceJob) -> list[ReferenceJob]:
        return [job for job in self.jobs if parent.row in job.parents]

    def _log(self, kind: Kind, job: ReferenceJob, gpus: list[int]) -> None:
        self.events.append(Event(self.now_s, kind, job.row, job.partition, tuple(gpus)))

    # --- Time -------------------------------------------------------------------------------

    def run(self, scheduler: Scheduler, seed: int) -> list[Event]:
        """To the end of the trace; raises Stuck where jobs would wait for ever."""
        scheduler.reset(seed)
        again = False
        while again or self._advance():
            decision = scheduler.decide(reference_view(self, scheduler.needs))
            self._apply(decision)
            again = decision.again
        return self.events

    def _anybody_left(self) -> bool:
        return not all(job.over for job in self.jobs)

    def _next_s(self) -> float:
        times = [self.wake_s]
        times += [job.stops_s for job in self.in_state("running")]
        times += [job.submit_s for job in self.in_state("pending")]
        times += [job.withdraw_at_s for job in self.jobs if not job.over]
        if self._anybody_left():
            times += [at_s for at_s, _, _ in self.changes[:1]]
        return min(times)

    def _advance(self) -> bool:
        while True:
            self.now_s = next_s = self._next_s()
            if math.isinf(next_s):
                if self._anybody_left():
                    raise Stuck
                return False
            self._stop_due()
            self._change_servers()
            self._admit()
            self._withdraw_due()
            self._rate_everybody()
            woken = self.wake_s <= self.now_s
            if woken:
                self.wake_s = math.inf
            if woken or self.in_state("queued"):
                return True

    def _stop_due(self) -> None:
        due = [job for job in self.in_state("running") if job.stops_s <= self.now_s]
        for job in due:  # in order of rows
            if job.due_s > self.now_s:
                self._requeue(job, Kind.EXPIRE, keeps_work=True)
            elif job.fail_at_s:
                job.book(self.now_s)
                job.progress_s = job.fail_at_s[0]
                self._requeue(job, Kind.FAIL, keeps_work=True)
                del job.fail_at_s[0]
            else:
                self._finish(job)

    def _finish(self, job: ReferenceJob) -> None:
        self._leave(job, "finished")
        job.progress_s = job.work_s
        job.finish_s = self.now_s
        self._log(Kind.FINISH, job, job.gpus)
        for child in self._children(job):
            if job.outcome != 0:
                self._withdraw(child)
            elif child.state == "blocked" and self._is_free(child):
                child.state = "queued"
                self._log(Kind.READY, child, [])

    def _is_free(self, job: ReferenceJob) -> bool:
        return all(self.jobs[parent].state == "finished" for parent in job.parents)

    def _change_servers(self) -> None:
        while self._anybody_left() and self.changes and self.changes[0][0] <= self.now_s:
            _, server, change = self.changes.pop(0)
            was_up = self.servers.is_up(server)
            self.servers.change(server, change)
            if was_up == self.servers.is_up(server):
                continue
            gpus = self.servers.gpus_of(server)
            kind = Kind.SERVER_DOWN if was_up else Kind.SERVER_UP
            owner = self.partition_of_server[server]
            self.events.append(Event(self.now_s, kind, -1, owner, tuple(gpus)))
            for gpu in gpus:
                for job in list(self.tenants[gpu]):
                    self._requeue(job, Kind.EVICT, keeps_work=change == Change.CLOSE)

    def _admit(self) -> None:
        for job in self.in_state("pending"):
            if job.submit_s > self.now_s:
                continue
            self._log(Kind.ARRIVAL, job, [])
            job.state = "queued" if self._is_free(job) else "blocked"
            if job.doomed:
                self._withdraw(job)

    def _withdraw_due(self) -> None:
        late = [job for job in self.jobs if job.withdraw_at_s <= self.now_s]
        for job in sorted(late, key=lambda job: (job.withdraw_at_s, job.row)):
            self._withdraw(job)

    def _withdraw(self, job: ReferenceJob) -> None:
        """The job, its children, theirs, and so on."""
        found = [job]
        for each in found:
            if each.over:
                continue
            found += [child for child in self._children(each) if child not in found]
            if each.state == "pending":
                each.doomed = True
                continue
            held = each.gpus if each.state == "running" else []
            if held:
                self._leave(each, "withdrawn")
            each.state = "withdrawn"
            each.finish_s = self.now_s
            self._log(Kind.WITHDRAW, each, held)

    # --- Decisions --------------------------------------------------------------------------

    def _apply(self, decision: Decision) -> None:
        """The decision is legal: the kernel's own checks are tested elsewhere."""
        for row in decision.preempts:
            self._requeue(self.jobs[row], Kind.PREEMPT, keeps_work=self.rules.preempt_saves)
            self.jobs[row].preemptions += 1
        for forward in decision.forwards:
            job = self.jobs[forward.job]
            assert job.state == "queued" and job.forwards < self.rules.max_forwards
            job.partition = forward.partition
            job.forwards += 1
            self._log(Kind.FORWARD, job, [])
        for start in decision.starts:
            self._start(self.jobs[start.job], start)
        self._rate_everybody()
        self.wake_s = math.inf if decision.wake_s is None else decision.wake_s

    def _start(self, job: ReferenceJob, start: Start) -> None:
        gpus = start.gpus.tolist()
        assert job.state == "queued" and job.least <= len(set(gpus)) == len(gpus) <= job.most
        renewal = job.renewable_s == self.now_s and job.gpus == gpus
        job.gpus = gpus
        for gpu in gpus:
            self._take(job, gpu)
        job.state = "running"
        job.speed = 0.0
        job.started_s = self.now_s
        if renewal:  # it goes on as if it had never stopped
            job.resume_s = max(self.now_s, job.resume_s)
            job.restarts -= 1
        else:
            restart_s = self.rules.restart_s + self.rules.restart_s_per_gpu * len(gpus)
            job.resume_s = self.now_s + (restart_s if job.restarts else 0.0)
        job.rated_s = job.resume_s
        job.lease_end_s = math.inf if start.lease_s is None else self.now_s + start.lease_s
        if math.isnan(job.first_start_s):
            job.first_start_s = self.now_s
        self._log(Kind.START, job, gpus)

    def _take(self, job: ReferenceJob, gpu: int) -> None:
        server = self.servers.server_of[gpu]
        self.tenants[gpu].append(job)
        assert self.servers.is_up(server)
        assert self.partition_of_server[server] == job.partition
        assert len(self.tenants[gpu]) <= self.rules.max_tenants
        assert sum(other.gpu_milli for other in self.tenants[gpu]) <= self.gpu_limit_milli
        assert (job.type_mask >> self.servers.type_of[server]) & 1
        assert self.servers.cpu_free_milli(server, self.tenants) >= 0
        assert self.servers.memory_free_mib(server, self.tenants) >= 0

    @property
    def gpu_limit_milli(self) -> int:
        """What the tenants of a GPU may ask for together."""
        over = self.rules.gpu_oversubscription
        return round(1000 * (self.rules.max_tenants if over is None else over))

    def _requeue(self, job: ReferenceJob, kind: Kind, *, keeps_work: bool) -> None:
        self._leave(job, "queued")
        if keeps_work:
            job.saved_s = job.progress_s
        elif self.rules.checkpoint_work_s is not None:
            every_s = self.rules.checkpoint_work_s
            written_s = min(math.floor(job.progress_s / every_s) * every_s, job.progress_s)
            job.saved_s = max(job.saved_s, written_s)
        job.lost_s += job.progress_s - job.saved_s
        job.progress_s = job.saved_s
        job.restarts += 1
        alive = keeps_work and kind in (Kind.PREEMPT, Kind.EXPIRE)
        job.renewable_s = self.now_s if alive else -math.inf
        self._log(kind, job, job.gpus)

    def _leave(self, job: ReferenceJob, state: str) -> None:
        job.book(self.now_s)
        job.held_s += self.now_s - job.started_s
        job.held_gpu_s += (self.now_s - job.started_s) * len(job.gpus)
        job.served_gpu_s += max(0.0, self.now_s - job.resume_s) * len(job.gpus)
        job.state = state
        job.due_s = math.inf
        for gpu in job.gpus:
            self.tenants[gpu].remove(job)

    def _rate_everybody(self) -> None:
        running = self.in_state("running")
        for job in running:
            speed, comm_share, slow_share = self.physics.speed(job, self.tenants, running)
            if speed != job.speed:
                job.book(self.now_s)
                job.speed, job.comm_share, job.slow_share = speed, comm_share, slow_share
                job.due_s = job.rated_s + (job.target_s - job.progress_s) / speed
