"""Preemptive queue schedulers: a job that comes first may take GPUs of jobs that come later."""

import heapq
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.codes import CONSOLIDATED, NEVER
from sim.occupancy import Occupancy
from sim.preempting_compactly import Place, plan_compactly
from sim.protocols import Placer, Sharing
from sim.queueing import QueueScheduler, own_code
from sim.view import ClusterView

Victims = list[tuple[float, int]]  # (key, running job), lowest priority first


class PreemptiveScheduler(QueueScheduler):
    """Jobs in priority order; each may preempt running jobs of strictly lower priority.

    A job first tries what is free. If that fails, the fewest running jobs are set aside, lowest
    priority first, that let it in; those whose GPUs it then does not use go on undisturbed. A job
    that cannot be placed even so preempts nobody. A preempted job queues again at its priority
    and may move to other GPUs in the same decision.
    """

    def __init__(self, *, placer: Placer, sharing: Sharing) -> None:
        """Compose a priority with a placement and a sharing rule."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=True)
        self._is_compact = own_code(placer) == CONSOLIDATED and own_code(sharing) == NEVER

    @abstractmethod
    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) key of waiting or running jobs; smaller runs first, ties by job row."""

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by priority, then by submission."""
        return view.queued[np.argsort(self.priority(view, view.queued), kind="stable")]

    def decide(self, view: ClusterView) -> Decision:
        """Serve waiting jobs by priority, preempting where that lets one in."""
        keys = self.priority(view, np.concatenate([view.running, view.queued]))
        plan = self._planned if self._is_compact and _is_plain(view) else self._searched
        starts, preempts = plan(view, keys)
        return Decision(
            starts=tuple(starts),
            preempts=tuple(preempts),
            wake_s=self.asked_again_s(view, starts, preempts),
        )

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """As in the parent; where no placer has times of its own, it need not know who waits."""
        if self.patient is not None:
            return super().asked_again_s(view, starts, preempts)
        waiting = len(view.queued) + len(preempts) - len(starts)
        return self.wake_s(view, starts) if waiting > 0 else None

    def _planned(self, view: ClusterView, keys: FloatArray) -> tuple[list[Start], list[int]]:
        """What `_searched` would find, by compiled code."""
        topology, jobs = view.topology, view.jobs
        plan = plan_compactly(
            Place(
                view.servers, topology.gpus_per_server, topology.server_first_gpu,
                topology.gpu_server, np.array(view.tenants), view.placed, view.slot,
                np.array(jobs.held),
            ),
            jobs.num_gpus, view.queued, view.running, keys,
        )  # fmt: skip
        ends = plan.first.tolist()
        starts = [
            Start(job, plan.gpus[begin:end])
            for job, begin, end in zip(plan.job.tolist(), ends[:-1], ends[1:], strict=True)
        ]
        return starts, plan.preempts.tolist()

    def _searched(self, view: ClusterView, keys: FloatArray) -> tuple[list[Start], list[int]]:
        """Starts and preemptions under any placer and sharing rule."""
        occupancy, ranks = Occupancy(view), keys.tolist()
        running, queued = view.running.tolist(), view.queued.tolist()
        victims: Victims = sorted(zip(ranks, running, strict=False), reverse=True)
        waiting = list(zip(ranks[len(running) :], queued, strict=True))
        heapq.heapify(waiting)
        starts: list[Start] = []
        preempts: list[int] = []
        refused: set[tuple[int, ...]] = set()
        while waiting:
            key, job = heapq.heappop(waiting)
            like = self.kind_of(view, job)
            if like in refused:
                continue
            gpus = self.sharing.place(view, occupancy, job, self.placer, self._rng)
            if gpus is None:
                gpus, losers = self._push_aside(view, occupancy, victims, key, job)
                for loser in losers:
                    victims.remove(loser)
                    occupancy.release(loser[1], view.gpus_of(loser[1]))
                    preempts.append(loser[1])
                    heapq.heappush(waiting, loser)
            if gpus is not None:
                occupancy.take(job, gpus)
                starts.append(Start(job, gpus))
            elif self.sharing.name == "off" and self.patient is None:
                refused.add(like)
        return starts, preempts

    def _push_aside(
        self, view: ClusterView, occupancy: Occupancy, victims: Victims, key: float, job: int
    ) -> tuple[IntArray | None, Victims]:
        """GPUs for `job` with the fewest victims of lower priority, and those that lose GPUs."""
        eligible = sum(1 for victim_key, _ in victims if victim_key > key)

        def attempt(count: int) -> IntArray | None:
            trial = occupancy.copy()
            for _, victim in victims[:count]:
                trial.release(victim, view.gpus_of(victim))
            return self.sharing.place(view, trial, job, self.placer, self._rng)

        if eligible == 0 or attempt(eligible) is None:
            return None, []
        counts = range(1, eligible)
        fewest = 1 + bisect_left(counts, True, key=lambda count: attempt(count) is not None)
        gpus = attempt(fewest)
        used = set() if gpus is None else set(gpus.tolist())
        losers = [v for v in victims[:fewest] if used & set(view.gpus_of(v[1]).tolist())]
        return gpus, losers


def _is_plain(view: ClusterView) -> bool:
    """Whether empty GPUs are all that a gang needs: every server is up, no job asks for more."""
    return view.jobs.demands is None and not view.server_closed.any()
