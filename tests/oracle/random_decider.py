"""A scheduler that does anything legal: starts, preempts, migrates, forwards, wakes, asks again."""

import numpy as np

from sim.decision import Decision, Forward, Start
from sim.signals import Signal
from sim.view import ClusterView

EVERYTHING = Signal.DURATION | Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE


class RandomDecider:
    """Acts at random for a while, then starts whatever fits, so that every run ends."""

    name = "anything"
    needs = EVERYTHING

    def __init__(self, *, whims: int) -> None:
        """`whims`: decisions made at random before it turns plain."""
        self.whims = whims

    def reset(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._left = self.whims

    def _maybe(self, chance: float) -> bool:
        return self._left > 0 and self._rng.random() < chance

    def decide(self, view: ClusterView) -> Decision:
        tenants = [row[row >= 0].tolist() for row in view.tenant]
        preempts = [job for job in view.running.tolist() if self._maybe(0.15)]
        for job in preempts:
            for gpu in view.gpus_of(job).tolist():
                tenants[gpu].remove(job)
        partition = view.jobs.partition.tolist()
        waiting = [*view.queued.tolist(), *preempts]
        forwards = self._forward(view, waiting, partition)
        starts: list[Start] = []
        for job in self._rng.permutation(waiting).tolist() if self._left > 0 else waiting:
            gpus = None if self._maybe(0.3) else self._gpus(view, tenants, job, partition[job])
            if gpus is not None:
                starts.append(Start(job, gpus))
                for gpu in gpus.tolist():
                    tenants[gpu].append(job)
        idle = not any(tenants) and len(starts) < len(waiting)
        wake_s = view.now_s + float(self._rng.choice([0.5, 1.0, 3.7]))
        ask = idle or self._maybe(0.3)
        again = self._maybe(0.1)
        self._left -= 1
        return Decision(
            starts=tuple(starts), preempts=tuple(preempts), forwards=tuple(forwards),
            wake_s=wake_s if ask else None, again=again,
        )  # fmt: skip

    def _forward(
        self, view: ClusterView, waiting: list[int], partition: list[int]
    ) -> list[Forward]:
        size = np.bincount(view.partition_of_server, weights=view.topology.gpus_per_server)
        forwards = []
        for job in waiting:
            target = int(self._rng.integers(view.num_partitions))
            fits = size[target] >= view.jobs.num_gpus[job] and target != partition[job]
            if fits and view.jobs.forwards[job] < view.max_forwards and self._maybe(0.2):
                forwards.append(Forward(job, target))
                partition[job] = target
        return forwards

    def _gpus(
        self, view: ClusterView, tenants: list[list[int]], job: int, partition: int
    ) -> np.ndarray | None:
        most = view.tenant.shape[1] if self._rng.random() < 0.7 else 1
        mine = view.jobs.profile[job]
        usable = []
        for gpu, server in enumerate(view.topology.gpu_server.tolist()):
            fits = view.belief.pairs.feasible[view.server_type[server], mine]
            if (
                view.partition_of_server[server] == partition
                and len(tenants[gpu]) < most
                and all(fits[view.jobs.profile[other]] for other in tenants[gpu])
            ):
                usable.append(gpu)
        gang = int(view.jobs.num_gpus[job])
        if len(usable) < gang:
            return None
        return self._rng.choice(usable, size=gang, replace=False)
