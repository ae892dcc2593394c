"""Any queue scheduler in its multi-scheduler form: one child a partition, and a forwarding rule."""

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.loads import loads_of
from sim.occupancy import Occupancy
from sim.protocols import Forwarding
from sim.queueing import QueueScheduler
from sim.view import ClusterView


class PartitionedScheduler:
    """Routes arrivals, lets each partition's scheduler decide for itself, then steals if allowed.

    The fair opponent of the learned agents: every partition sees its own queue, servers and
    running jobs only. Stealing goes through partitions in order of index; each takes what its own
    rule would start of the others' queues, blocked jobs skipped.
    """

    def __init__(self, *, child: QueueScheduler, forwarding: Forwarding) -> None:
        """`child` serves every partition in turn: it keeps nothing between decisions."""
        self.child = child
        self.forwarding = forwarding
        self.needs = child.needs
        self._routed: tuple[float, set[int]] = (-1.0, set())  # now, who was routed at it
        self._rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        """`order+placer[+sharing]+forwarding`."""
        return f"{self.child.name}+{self.forwarding.name}"

    def reset(self, seed: int) -> None:
        """Start all random streams anew."""
        self._routed = (-1.0, set())
        router, child = np.random.SeedSequence(seed).generate_state(2)
        self._rng = np.random.default_rng(router)
        self.child.reset(int(child))

    def decide(self, view: ClusterView) -> Decision:
        """One decision for the whole cluster, made of the partitions' own."""
        at = view.jobs.partition[view.queued].copy()
        forwards = self.route_arrivals(view, at)
        starts: list[Start] = []
        preempts: list[int] = []
        wakes: list[float] = []
        for partition in range(view.num_partitions):
            queue = view.queued[at == partition]
            if len(queue) == 0:
                continue
            own = self.child.decide(view.narrowed(partition, queue))
            starts += own.starts
            preempts += own.preempts
            if own.wake_s is not None:
                wakes.append(own.wake_s)
        if self.forwarding.steals:
            self._steal(view, at, starts, preempts, forwards, wakes)
        return Decision(
            starts=tuple(starts),
            preempts=tuple(preempts),
            forwards=tuple(forwards),
            wake_s=min(wakes, default=None),
        )

    def route_arrivals(self, view: ClusterView, at: IntArray) -> list[Forward]:
        """Send jobs that arrived at this instant where the rule wants them.

        `at` (q,) says in whose queue each of `view.queued` is, and is updated.
        """
        fresh = (view.jobs.submit_s[view.queued] == view.now_s) & (
            view.jobs.forwards[view.queued] == 0
        )
        if self.forwarding.steals or view.max_forwards < 1 or not fresh.any():
            return []
        if self._routed[0] != view.now_s:
            self._routed = (view.now_s, set())
        loads, forwards = loads_of(view), []
        for row in np.flatnonzero(fresh).tolist():
            job, home = int(view.queued[row]), int(at[row])
            if job in self._routed[1]:
                continue  # once, as it arrives
            self._routed[1].add(job)
            gang = int(view.jobs.num_gpus[job])
            fits = self._fits(view, job, home)
            target = self.forwarding.route(gang, home, fits, loads, self._rng)
            if target != home:
                forwards.append(Forward(job, target))
                loads = loads.moved(gang, home, target)
                at[row] = target
        return forwards

    def _fits(self, view: ClusterView, job: int, partition: int) -> bool:
        here = view.narrowed(partition, view.queued[:0])
        child = self.child
        return child.sharing.place(here, Occupancy(view), job, child.placer, self._rng) is not None

    def _steal(
        self,
        view: ClusterView,
        at: IntArray,
        starts: list[Start],
        preempts: list[int],
        forwards: list[Forward],
        wakes: list[float],
    ) -> None:
        """Let partitions with room take others' waiting jobs; appends to the lists given."""
        occupancy, server_of = Occupancy(view), view.topology.gpu_server
        for job in preempts:
            occupancy.release(job, view.gpus_of(job))
        for start in starts:
            occupancy.take(start.job, start.gpus)
        free = view.jobs.forwards[view.queued] < view.max_forwards
        free &= ~np.isin(view.queued, [start.job for start in starts])
        for partition in range(view.num_partitions):
            if not free.any():
                return
            foreign = view.queued[free & (at != partition)]
            if len(foreign) == 0:
                continue
            here = view.narrowed(partition, foreign)
            if occupancy.most_room(here, self.child.sharing.name != "off") == 0:
                continue
            taken = self.child.fill(here, occupancy, self.child.order(here), True)
            forwards += [Forward(start.job, partition) for start in taken]
            starts += taken
            own = [s for s in starts if view.partition_of_server[server_of[s.gpus[0]]] == partition]
            wake_s = self.child.wake_s(here, own) if taken else None
            wakes += [] if wake_s is None else [wake_s]
            free &= ~np.isin(view.queued, [start.job for start in taken])
