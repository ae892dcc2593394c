"""What queue schedulers decide, in plain Python: the reference of the engine.

`by_hand` has a scheduler decide so; its orders, placers, sharing and forwarding rules are asked one
by one, and who holds what is tried out on an `Occupancy`.
"""

import heapq
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.engine.composed import Composed, PartitionedScheduler, PreemptiveScheduler, QueueScheduler
from sim.engine.occupancy import Occupancy
from sim.forwarding import LeastLoadedForwarding, OwnOnly, RandomForwarding
from sim.protocols import Loads, Scheduler
from sim.view import ClusterView

S = TypeVar("S", bound=Scheduler)
Victims = list[tuple[float, int]]  # (key, running job), lowest priority first


def by_hand(scheduler: S) -> S:
    """The same scheduler, deciding in Python where the engine would; others as they are."""
    inner: Any = getattr(scheduler, "scheduler", scheduler)  # of one that wraps another
    if isinstance(inner, PartitionedScheduler):
        inner.orders = _Partitions(inner).orders  # type: ignore[method-assign]
    elif isinstance(inner, Composed):
        inner.orders = partial(queue_orders, inner)
    return scheduler


def queue_orders(child: QueueScheduler, view: ClusterView) -> Decision:
    """Of one queue."""
    if isinstance(child, PreemptiveScheduler):
        starts, preempts = _searched(child, view)
    else:
        starts, preempts = fill(child, view, Occupancy(view), child.order(view), False), []
    wake_s = child.asked_again_s(view, starts, preempts)
    return Decision(starts=tuple(starts), preempts=tuple(preempts), wake_s=wake_s)


def fill(
    child: QueueScheduler, view: ClusterView, occupancy: Occupancy, order: IntArray, passes: bool
) -> list[Start]:
    """Start what fits, in order, booking it in `occupancy`; `passes`: whoever is blocked."""
    passes = passes or child.skip_blocked
    if hasattr(child, "fill"):  # Filling; asking for the protocol takes as long as a start
        return child.fill(view, occupancy, order, passes)
    starts: list[Start] = []
    may_refuse = child.may_refuse(view.tenant.shape[1])
    refused: set[tuple[int, ...]] = set()
    for job in order.tolist():
        like = child.class_of(view, job)
        if like in refused:
            continue
        gpus = child.sharing.place(view, occupancy, job, child.placer, child.rng)
        if gpus is not None:
            occupancy.occupy(job, gpus)
            starts.append(Start(job, gpus))
        elif not passes:
            break
        elif may_refuse:
            refused.add(like)
    return starts


def _searched(child: PreemptiveScheduler, view: ClusterView) -> tuple[list[Start], list[int]]:
    """Starts and preemptions, in order of priority."""
    ranks = child.priority(view, np.concatenate([view.running, view.queued])).tolist()
    occupancy, running, queued = Occupancy(view), view.running.tolist(), view.queued.tolist()
    victims: Victims = sorted(zip(ranks, running, strict=False), reverse=True)
    waiting = list(zip(ranks[len(running) :], queued, strict=True))
    heapq.heapify(waiting)
    starts: list[Start] = []
    preempts: list[int] = []
    refused: set[tuple[int, ...]] = set()
    while waiting:
        key, job = heapq.heappop(waiting)
        like = child.class_of(view, job)
        if like in refused:
            continue
        gpus = child.sharing.place(view, occupancy, job, child.placer, child.rng)
        if gpus is None:
            gpus, blockers = _push_aside(child, view, occupancy, victims, key, job)
            for blocker in blockers:
                victims.remove(blocker)
                occupancy.vacate(blocker[1], view.gpus_of(blocker[1]))
                preempts.append(blocker[1])
                heapq.heappush(waiting, blocker)
        if gpus is not None:
            occupancy.occupy(job, gpus)
            starts.append(Start(job, gpus))
        elif not child.sharing.shares and child.patient is None:
            refused.add(like)
    return starts, preempts


def _push_aside(
    child: PreemptiveScheduler, view: ClusterView, occupancy: Occupancy, victims: Victims,
    key: float, job: int,
) -> tuple[IntArray | None, Victims]:  # fmt: skip
    """GPUs for `job` with the fewest victims of lower priority, and those that lose GPUs."""
    eligible = sum(1 for victim_key, _ in victims if victim_key > key)

    def attempt(count: int) -> IntArray | None:
        trial = occupancy.copy()
        trial.vacate_all((victim, view.gpus_of(victim)) for _, victim in victims[:count])
        return child.sharing.place(view, trial, job, child.placer, child.rng)

    if eligible == 0 or attempt(eligible) is None:
        return None, []
    counts = range(1, eligible)
    fewest = 1 + bisect_left(counts, True, key=lambda count: attempt(count) is not None)
    gpus = attempt(fewest)
    if gpus is None:
        return None, []
    key_of = {victim: key for key, victim in victims[:fewest]}
    blockers = occupancy.in_the_way(view, job, gpus, list(key_of))
    return gpus, [(key_of[blocker], blocker) for blocker in blockers]


class _Partitions:
    """One child a partition, with a forwarding rule."""

    def __init__(self, scheduler: PartitionedScheduler) -> None:
        self._scheduler = scheduler
        self._now_s = -1.0
        self._routed: set[int] = set()
        self._drawn: IntArray | None = None

    def orders(self, view: ClusterView) -> Decision:
        """One decision for the whole cluster, made of the partitions' own."""
        child = self._scheduler.child
        at = view.jobs.partition[view.queued].copy()
        forwards = self._route_arrivals(view, at)
        starts: list[Start] = []
        preempts: list[int] = []
        wakes: list[float | None] = []
        for partition in range(view.num_partitions):
            queue = view.queued[at == partition]
            if len(queue) > 0:
                own = queue_orders(child, view.narrowed(partition, queue))
                starts += own.starts
                preempts += own.preempts
                wakes.append(own.wake_s)
        if self._scheduler.forwarding.steals:
            self._steal(view, at, starts, preempts, forwards, wakes)
        return Decision(
            starts=tuple(starts), preempts=tuple(preempts), forwards=tuple(forwards),
            wake_s=min((wake for wake in wakes if wake is not None), default=None),
        )  # fmt: skip

    def _route_arrivals(self, view: ClusterView, at: IntArray) -> list[Forward]:
        """Send jobs that queue for the first time where the rule wants them; updates `at`."""
        if self._scheduler.forwarding.steals or view.max_forwards < 1:
            return []
        if view.now_s < self._now_s:  # another run
            self._routed, self._drawn = set(), None
        self._now_s = view.now_s
        seen = np.isin(view.queued, list(self._routed))
        fresh = ~seen & (view.jobs.forwards[view.queued] == 0)
        if not fresh.any():
            return []
        loads, forwards = loads_of(view), []
        for row in np.flatnonzero(fresh).tolist():
            job, home = int(view.queued[row]), int(at[row])
            if job in self._routed:
                continue
            self._routed.add(job)
            target = self._target(view, job, home, loads)
            if target != home:
                forwards.append(Forward(job, target))
                loads = loads.moved(int(view.jobs.num_gpus[job]), home, target)
                at[row] = target
        return forwards

    def _target(self, view: ClusterView, job: int, home: int, loads: Loads) -> int:
        forwarding, rng = self._scheduler.forwarding, self._scheduler.rng
        if isinstance(forwarding, RandomForwarding):  # once for all jobs, in their order
            if self._drawn is None:
                gangs, homes = view.jobs.num_gpus, view.jobs.partition
                rooms = np.array([rooms_for(view, row) for row in range(len(gangs))])
                self._drawn = forwarding.drawn(gangs, homes, rooms, rng)
            return int(self._drawn[job])
        loads = replace(loads, capacity=rooms_for(view, job))
        asks = not isinstance(forwarding, OwnOnly | LeastLoadedForwarding)
        fits = asks and self._fits(view, job, home)
        return forwarding.route(int(view.jobs.num_gpus[job]), home, fits, loads, rng)

    def _fits(self, view: ClusterView, job: int, partition: int) -> bool:
        here, child = view.narrowed(partition, view.queued[:0]), self._scheduler.child
        gpus = child.sharing.place(here, Occupancy(view), job, child.placer, child.rng)
        return gpus is not None

    def _steal(
        self, view: ClusterView, at: IntArray, starts: list[Start], preempts: list[int],
        forwards: list[Forward], wakes: list[float | None],
    ) -> None:  # fmt: skip
        """Let partitions with room take others' waiting jobs; appends to the lists given."""
        child, server_of = self._scheduler.child, view.topology.gpu_server
        occupancy = Occupancy(view)
        occupancy.vacate_all((job, view.gpus_of(job)) for job in preempts)
        for start in starts:
            occupancy.occupy(start.job, start.gpus)
        free = view.jobs.forwards[view.queued] < view.max_forwards
        free &= ~np.isin(view.queued, [start.job for start in starts])
        for partition in range(view.num_partitions):
            foreign = view.queued[free & (at != partition)]
            if len(foreign) == 0:
                continue
            here = view.narrowed(partition, foreign)
            taken = fill(child, here, occupancy, child.order(here), True)
            forwards += [Forward(start.job, partition) for start in taken]
            starts += taken
            own = [s for s in starts if view.partition_of_server[server_of[s.gpus[0]]] == partition]
            wakes += [child.wake_s(here, own)] if taken else []
            free &= ~np.isin(view.queued, [start.job for start in taken])


def rooms_for(view: ClusterView, job: int) -> IntArray:
    """(M,) GPUs of each partition; 0 where it could not hold the job if all servers were empty."""
    topology, demands = view.topology, view.jobs.demands
    rooms = np.zeros(view.num_partitions, dtype=np.int64)
    for m in range(view.num_partitions):
        workers = 0
        servers = np.flatnonzero(view.partition_of_server == m).tolist()
        for server in servers:
            most = int(topology.gpus_per_server[server])
            if demands is not None:
                allowed = (int(demands.type_mask[job]) >> int(topology.server_gpu_type[server])) & 1
                most *= allowed
                for ask, has in (
                    (demands.cpu_milli[job], topology.server_cpu_milli),
                    (demands.memory_mib[job], topology.server_memory_mib),
                ):
                    if ask > 0 and has is not None:
                        most = min(most, int(has[server]) // int(ask))
            workers += most
        if workers >= view.jobs.num_gpus[job]:
            rooms[m] = topology.gpus_per_server[servers].sum()
    return rooms


def loads_of(view: ClusterView) -> Loads:
    """Loads of all partitions of the cluster."""
    jobs = np.concatenate([view.queued, view.running])
    count = view.num_partitions
    wanted = np.bincount(
        view.jobs.partition[jobs], weights=view.jobs.num_gpus[jobs], minlength=count
    )
    size = view.topology.gpus_per_server
    capacity = np.bincount(view.partition_of_server, weights=size, minlength=count)
    return Loads(wanted=wanted.astype(np.int64), capacity=capacity.astype(np.int64))
