"""The first reason for which a job still waits after a decision, by the rules that were in force.

A judge sees the state just after a decision, and which jobs that decision started. Taking back the
starts of jobs that come after the one asked for gives what it was offered at its turn.
"""

import copy
from typing import Protocol

import numpy as np

from gpuyard.evaluation.explanation import Look, Reason
from sim.arrays import IntArray
from sim.codes import ARRIVAL, LEFT, SERVICE, SMALLEST_GANG
from sim.engine.composed import PartitionedScheduler, PreemptiveScheduler, QueueScheduler
from sim.engine.occupancy import ANY_SPEED, SHARING_NEEDS, Occupancy
from sim.engine.rule import Filling, own_code
from sim.errors import amount
from sim.kernel.free_gpus import workers_for
from sim.kernel.layout import QUEUED, RUNNING
from sim.protocols import PatientPlacer, Placer, Scheduler
from sim.report.gpu_use import needed_gpus
from sim.report.run_tables import ORDERS
from sim.run import Kind, Run
from sim.schedulers.a_srpt import ASrpt
from sim.schedulers.dally import Dally
from sim.schedulers.easy import Easy
from sim.sharing import place_alone
from sim.view import ClusterView, state_of

OWN_RANK = "place in the scheduler's own order among those who waited at the decision"
BY_SUBMISSION = "place by submission, for this scheduler keeps no order of its own"
MOST_NAMED = 3  # jobs
LASTING = (ARRIVAL, SMALLEST_GANG, LEFT, SERVICE)  # orders in which nobody overtakes by waiting
Cause = tuple[Reason, str, bool]  # reason, details, certain
Held = list[tuple[int, IntArray]]  # jobs, and the GPUs of each


class Judge(Protocol):
    """Says why a job waits."""

    rank_rule: str
    sorts: bool  # it puts the whole queue in order at each look

    def look(self, view: ClusterView, job: int, events: int) -> Look:
        """Of a job that waits in `view`, the state just after a decision.

        The last of the first `events` events of the run are that decision's orders.
        """


def judge_of(scheduler: Scheduler, run: Run) -> Judge:
    """The judge who knows most of the rules of `scheduler`."""
    inner = getattr(scheduler, "scheduler", scheduler)  # of one whose belief is updated
    if isinstance(inner, PartitionedScheduler):
        return QueueJudge(inner.child, run, steals=inner.forwarding.steals)
    if isinstance(inner, QueueScheduler):
        return QueueJudge(inner, run, steals=False)
    if isinstance(inner, ASrpt):
        return ASrptJudge(inner, run)
    shares = bool(getattr(inner, "shares", False))
    return PolicyJudge(run, declines=isinstance(inner, Dally), shares=shares)


class _Instant:
    """A partition's side of a state just after a decision, and what the decision started there."""

    def __init__(self, run: Run, view: ClusterView, job: int, events: int, *, steals: bool) -> None:
        """Look at the partition of `job`, after the first `events` events."""
        self.run, self.job = run, job
        self.partition = int(view.jobs.partition[job])
        self.gang = int(run.jobs.num_gpus[job])
        several = view.num_partitions > 1
        at = view.jobs.partition
        self.left: IntArray = (
            view.queued[at[view.queued] == self.partition] if several else view.queued
        )
        starts, forwarded, stopped = _orders(run, view, events)
        self._stopped = [(job, gpus) for job, gpus in stopped if at[job] == self.partition]
        self.starts: IntArray = starts[at[starts] == self.partition]
        own = self.starts  # those of the queue of this partition
        if len(forwarded):
            fresh = run.jobs.submit_s[own] == view.now_s
            own = own[~(np.isin(own, forwarded) & (steals | ~fresh))]
        self.own: IntArray = own
        queue, here = self.left, view
        if len(own):  # two rising pieces, which a stable sort merges
            queue = np.sort(np.concatenate([self.left, np.sort(own)]), kind="stable")
        if several:
            here = view.narrowed(self.partition, queue)
        running = here.running
        if len(starts):
            running = running[~np.isin(running, starts)]
        self.view = ClusterView(**{**here.__dict__, "queued": queue, "running": running})
        if len(self.starts):  # orders may go by what is free
            self._offered = self.occupancy(set())
            self.view = self._offered.shown(self.view)

    def waiting(self, jobs: IntArray) -> IntArray:
        """Those of `jobs` who still wait."""
        return jobs[state_of(self.view).job["status"][jobs] == QUEUED]

    def occupancy(self, before: set[int]) -> Occupancy:
        """Who holds what once those of the started who are not in `before` are taken out."""
        occupancy = Occupancy(self.view)
        left = (job for job in self.starts.tolist() if job not in before)
        occupancy.vacate_all((job, self.view.gpus_of(job)) for job in left)
        return occupancy

    def stopped_later(self, before: set[int]) -> Held:
        """Jobs that gave way to others of the started than those in `before`.

        That is, to who has one of their GPUs now, or with demands who is on their servers.
        """
        place = np.arange(self.view.topology.num_gpus)
        if self.view.jobs.demands is not None:
            place = self.view.topology.gpu_server
        ours = (self.view.gpus_of(job) for job in self.starts.tolist() if job in before)
        taken = {at for gpus in ours for at in place[gpus].tolist()}
        return [
            (job, gpus)
            for job, gpus in self._stopped
            if job not in before and job != self.job and taken.isdisjoint(place[gpus].tolist())
        ]

    def room(self, tenants: IntArray) -> IntArray:
        """(S,) GPUs without a tenant on servers of the partition that are up."""
        topology = self.view.topology
        empty = np.bincount(topology.gpu_server[tenants == 0], minlength=topology.num_servers)
        mine = np.zeros(topology.num_servers, dtype=np.bool_)
        mine[self.view.servers] = self.view.server_closed[self.view.servers] == 0
        return np.where(mine, empty, 0)

    def lacking(self, room: IntArray, usable: IntArray) -> Cause | None:
        """Why the job could use fewer GPUs than its gang wants; None: it could use enough.

        `room` and `usable`: (S,) free GPUs, and those of them that it could use.
        """
        if usable.sum() >= self.gang:
            return None
        view = self.view
        size = int(view.topology.gpus_per_server[view.servers].sum())
        if size < self.gang:
            return Reason.CAP, f"it has {amount(size, 'GPU')}, the job wants {self.gang}", True
        away = self._away()
        if usable.sum() + away.sum() >= self.gang:
            servers = np.count_nonzero(away)
            words = f"{amount(away.sum(), 'GPU')} of {amount(int(servers), 'server')}"
            return Reason.DOWN, words, True
        return Reason.ROOM if room.sum() >= self.gang else Reason.NO_GPUS, "", True

    def _away(self) -> IntArray:
        """(S,) GPUs of servers that are away, and so empty, which the job could use."""
        state, gpus = state_of(self.view), np.zeros(self.view.topology.num_servers, dtype=np.int64)
        for server in self.view.servers[self.view.server_closed[self.view.servers] > 0].tolist():
            row = state.server[server]
            size = row["last_gpu"] - row["first_gpu"]
            own = row["gpu_type"], row["cpu_milli"], row["memory_mib"]
            gpus[server] = workers_for(state.job[self.job], size, *own)
        return gpus

    def seen(self, rank: int, room: IntArray, cause: Cause) -> Look:
        """The look with its numbers."""
        racks = np.bincount(self.view.topology.server_rack, weights=room)
        reason, words, certain = cause
        return Look(
            time_s=self.view.now_s,
            partition=self.partition,
            rank=rank,
            waiting=len(self.view.queued),
            free_gpus=int(room.sum()),
            server_gpus=int(room.max()),
            rack_gpus=int(racks.max()),
            reason=reason,
            words=words,
            certain=certain,
        )


def _orders(run: Run, view: ClusterView, events: int) -> tuple[IntArray, IntArray, Held]:
    """What the decision did with whose orders the first `events` events end.

    Jobs that it started, in order, and that still run; that it forwarded; that it stopped. Not by
    time alone: it comes twice where a job has no work.
    """
    log, first = run.log, events
    while first > 0 and log.time_s[first - 1] == view.now_s and log.kind[first - 1] in ORDERS:
        first -= 1
    kind, job = log.kind[first:events], log.job[first:events]
    started, forwarded = job[kind == Kind.START], job[kind == Kind.FORWARD]
    if len(started) > 1:
        _, where = np.unique(started, return_index=True)
        started = started[np.sort(where)]
    at = first + np.flatnonzero(kind == Kind.PREEMPT)
    stopped = [(int(log.job[event]), log.gpus[event]) for event in at.tolist()]
    return started[state_of(view).job["status"][started] == RUNNING], forwarded, stopped


def named(run: Run, jobs: IntArray) -> str:
    """Jobs by their ids, a few of them."""
    ids = [str(run.jobs.job_id[job]) for job in jobs[:MOST_NAMED].tolist()]
    more = len(jobs) - MOST_NAMED
    return f"job{'s' if len(jobs) > 1 else ''} {', '.join(ids)}" + (
        f" and {more} more" if more > 0 else ""
    )


class QueueJudge:
    """For orders with a placer and a sharing rule: its own order, placer and rule are asked."""

    def __init__(self, child: QueueScheduler, run: Run, *, steals: bool) -> None:
        """`child` serves each partition; it is asked, and nothing of it changes."""
        self._child = copy.copy(child)
        self._child.rng = np.random.default_rng(0)
        self._fills = isinstance(child, Filling)
        self._run, self._steals = run, steals
        # Whose turn it is under DRF changes with every start: nobody has a place in an order.
        self._by_shares = bool(getattr(child, "between_users", False))
        self.rank_rule = BY_SUBMISSION if self._by_shares else OWN_RANK
        # Work left changes when a job queues again; where nobody does, neither does the order.
        again = run.preemptions.any() or (run.restarts is not None and run.restarts.any())
        # An order of `keys` says nothing of time or of who else waits.
        by_keys = type(child).order is QueueScheduler.order
        self._lasts = not again and (own_code(child) in LASTING or by_keys)
        self.sorts = not self._lasts
        self._places: IntArray | None = None  # (J,) in an order that lasts

    def look(self, view: ClusterView, job: int, events: int) -> Look:
        """Its place in the order, and why it was passed over there."""
        now = _Instant(self._run, view, job, events, steals=self._steals)
        ahead, started, rank = self._before(now)
        occupancy = now.occupancy(set(started.tolist()))
        stopped = now.stopped_later(set(started.tolist()))
        for other, gpus in stopped:  # at this job's turn they still ran
            occupancy.occupy(other, gpus)
        room = now.room(occupancy.tenants)
        return now.seen(rank, room, self._cause(now, occupancy, ahead, room, stopped))

    def _before(self, now: _Instant) -> tuple[IntArray, IntArray, int]:
        """Of the jobs before the one asked for: who waits, the first of all first; who started.

        And its rank. Where the order lasts nothing is sorted: a queue may be long.
        """
        if self._lasts:
            places = self._placed(now.view)
            mine = places[now.job]
            ahead, started = (jobs[places[jobs] < mine] for jobs in (now.left, now.own))
            rank = len(ahead) + len(started) + 1
            if len(ahead):
                at = int(np.argmin(places[ahead]))
                ahead[0], ahead[at] = ahead[at], ahead[0]
            return ahead, started, rank
        order = self._child.order(now.view)
        at = int(np.flatnonzero(order == now.job)[0])
        first = order[:0] if self._by_shares else order[:at]
        waits = state_of(now.view).job["status"][first] == QUEUED
        return first[waits], first[~waits], at + 1

    def _placed(self, view: ClusterView) -> IntArray:
        """(J,) the place of each job that may still come to wait, asked for once."""
        if self._places is None:
            jobs = np.arange(len(self._run.jobs))
            order = self._child.order(ClusterView(**{**view.__dict__, "queued": jobs}))
            self._places = np.empty(len(jobs), dtype=np.int64)
            self._places[order] = jobs
        return self._places

    def _cause(
        self, now: _Instant, occupancy: Occupancy, ahead: IntArray, room: IntArray, stopped: Held
    ) -> Cause:
        child = self._child
        if len(ahead) and not child.skip_blocked and not isinstance(child, Easy):
            head = int(ahead[0])
            gang = amount(self._run.jobs.num_gpus[head], "GPU")
            return Reason.BEHIND, f"{named(self._run, ahead[:1])} of {gang} blocks it", True
        lacking = now.lacking(room, self._usable(now, occupancy))
        if lacking is not None:
            if lacking[0] is Reason.NO_GPUS and isinstance(child, PreemptiveScheduler):
                return Reason.NO_GPUS, self._who_stays(now, occupancy, child, stopped), True
            return lacking
        gpus = child.sharing.place(now.view, occupancy, now.job, child.placer, child.rng)
        if gpus is None:
            return _no_place(now, child.placer, child.patient)
        if isinstance(child, Easy) and len(ahead):
            held = f"starting it now would delay {named(self._run, ahead[:1])}"
            return Reason.RESERVATION, held, True
        words = "its rule passed over it" if self._fills else "there was room for it at its rank"
        others = f": it started {named(self._run, now.starts)}" if len(now.starts) else ""
        return Reason.CHOSEN, words + others, False

    def _usable(self, now: _Instant, occupancy: Occupancy) -> IntArray:
        """(S,) GPUs that the job could use, empty or shared as the rule has it."""
        sharing = self._child.sharing
        if not sharing.shares:
            return occupancy.exclusive(now.view, now.job).usable_per_server
        least_speed = getattr(sharing, "least_speed", ANY_SPEED)
        return occupancy.shared(now.view, now.job, least_speed).usable_per_server

    def _who_stays(
        self, now: _Instant, occupancy: Occupancy, child: PreemptiveScheduler, stopped: Held
    ) -> str:
        """Why nobody gave way to the job: what those who come after it would have given."""
        held = [*((job, now.view.gpus_of(job)) for job in now.view.running.tolist()), *stopped]
        jobs = np.array([*(job for job, _ in held), now.job])
        *keys, own = np.asarray(child.priority(now.view, jobs)).tolist()
        without = occupancy.copy()
        without.vacate_all(pair for pair, key in zip(held, keys, strict=True) if key > own)
        if self._usable(now, without).sum() < now.gang:
            return "those who run come before it, or would give too few"
        where = f"where {child.placer.name} would put {now.gang}"
        return f"those who come after it would give enough, not {where}"


def _no_place(now: _Instant, placer: Placer, patient: PatientPlacer | None) -> Cause:
    """Enough is free, and the placer takes none of it."""
    if patient is None:
        return Reason.FRAGMENTS, f"not where {placer.name} would put {now.gang}", True
    again_s = patient.wake_s(now.view, now.job)
    again = "" if again_s is None else f"; tried again by t={again_s:,.0f} s"
    return Reason.COMPACT, f"{placer.name} takes no place as spread as what is free{again}", True


class ASrptJudge:
    """For A-SRPT: its virtual machine, its queue in order, its delay rule."""

    rank_rule = OWN_RANK
    sorts = True

    def __init__(self, scheduler: ASrpt, run: Run) -> None:
        """`scheduler` is the one that plays."""
        self._scheduler, self._run = scheduler, run

    def look(self, view: ClusterView, job: int, events: int) -> Look:
        """Where it stands: in the virtual machine, behind somebody, or at its turn."""
        scheduler = self._scheduler
        now = _Instant(self._run, view, job, events, steals=False)
        order = scheduler.standing(now.view)
        at = int(np.flatnonzero(order == job)[0])
        occupancy = now.occupancy(set(order[:at].tolist()))
        room = now.room(occupancy.tenants)
        left = now.waiting(order[:at]).tolist()
        blocking = [each for each in left if not scheduler.delays(each, view.now_s)]
        ahead = np.array(blocking, dtype=np.int64)
        return now.seen(at + 1, room, self._cause(now, occupancy, ahead, room))

    def _cause(self, now: _Instant, occupancy: Occupancy, ahead: IntArray, room: IntArray) -> Cause:
        scheduler, view, job = self._scheduler, now.view, now.job
        if scheduler.is_virtual(job):
            return Reason.VIRTUAL, "its virtual machine has not completed the job yet", True
        if len(ahead) and not scheduler.skip_blocked:
            return Reason.BEHIND, f"{named(self._run, ahead[:1])} blocks it", True
        lacking = now.lacking(room, occupancy.exclusive(view, job).usable_per_server)
        if lacking is not None:
            return lacking
        rng = np.random.default_rng(0)
        if place_alone(view, occupancy, job, scheduler.placer, rng) is None:
            return _no_place(now, scheduler.placer, scheduler.patient)
        return Reason.COMPACT, "by its delay rule: the place there is would slow it", True


class PolicyJudge:
    """For all others: what can be seen without knowing the rule."""

    rank_rule = BY_SUBMISSION
    sorts = False

    def __init__(self, run: Run, *, declines: bool, shares: bool) -> None:
        """With `declines` a job is offered all that is free, and may decline it.

        With `shares` it may also be put beside others.
        """
        self._run, self._declines, self._shares = run, declines, shares
        self._needed = needed_gpus(run)

    def look(self, view: ClusterView, job: int, events: int) -> Look:
        """What was free when the decision began, and what it made of it."""
        now = _Instant(self._run, view, job, events, steals=True)
        now.gang = int(self._needed[job])
        rank = int(np.searchsorted(now.view.queued, job)) + 1
        before = now.occupancy(set())
        room = now.room(before.tenants)
        return now.seen(rank, room, self._cause(now, before, room))

    def _cause(self, now: _Instant, before: Occupancy, room: IntArray) -> Cause:
        view, job = now.view, now.job
        after = now.occupancy(set(now.starts.tolist()))
        lacking = now.lacking(room, before.exclusive(view, job).usable_per_server)
        if lacking is not None:
            beside = self._shares and SHARING_NEEDS in view.granted
            if beside and before.shared(view, job, ANY_SPEED).usable_per_server.sum() >= now.gang:
                return Reason.CHOSEN, "it could have shared", False
            return lacking
        others = f"it started {named(self._run, now.starts)}" if len(now.starts) else ""
        left = after.exclusive(view, job).usable_per_server
        if left.sum() < now.gang:
            return Reason.CHOSEN, others, False
        spread = f"{amount(left.sum(), 'GPU')} stayed free, at most {left.max()} on one server"
        if self._declines:
            return Reason.COMPACT, f"it declined what was free: {spread}", True
        return Reason.CHOSEN, "; ".join(filter(None, [others, spread])), False
