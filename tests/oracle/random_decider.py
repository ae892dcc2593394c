"""A scheduler that does anything legal: starts, leases, preempts, resizes, migrates, forwards."""

import numpy as np

from sim.decision import Decision, Forward, Start
from sim.view import ClusterView, Signal
from tests.oracle.room import Room

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
        self._last: dict[int, list[int]] = {}  # GPUs of each job's last start

    def _maybe(self, chance: float) -> bool:
        return self._left > 0 and self._rng.random() < chance

    def decide(self, view: ClusterView) -> Decision:
        room = Room(view)
        preempts = [job for job in view.running.tolist() if self._maybe(0.15)]
        for job in preempts:
            room.release(job)
        partition = view.jobs.partition.tolist()
        waiting = [*view.queued.tolist(), *preempts]
        forwards = self._forward(view, waiting, partition)
        starts: list[Start] = []
        for job in self._rng.permutation(waiting).tolist() if self._left > 0 else waiting:
            gpus = [] if self._maybe(0.2) else self._gpus(view, room, job, partition[job])
            if gpus:
                room.take(job, gpus)
                self._last[job] = gpus
                lease_s = (
                    float(self._rng.choice([0.5, 1.0, 2.0, 5.0])) if self._maybe(0.4) else None
                )
                starts.append(Start(job, np.array(gpus), lease_s))
        idle = self._left > 0 and not any(room.tenants) and len(starts) < len(waiting)
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

    def _gpus(self, view: ClusterView, room: Room, job: int, partition: int) -> list[int]:
        """GPUs for `job`; none if it does not fit."""
        most = view.tenant.shape[1] if self._rng.random() < 0.7 else 1
        least = wanted = int(view.jobs.num_gpus[job])
        if view.jobs.elastic is not None:
            least = int(view.jobs.elastic.least_gpus[job])
            wanted = int(self._rng.integers(least, int(view.jobs.elastic.most_gpus[job]) + 1))
        order = room.shuffled(self._rng)
        if job in self._last and self._maybe(0.5):  # where it was: after a lease, a renewal
            order, wanted = self._last[job], len(self._last[job])
        picked = room.pick(job, order, partition, most, wanted)
        return picked if len(picked) >= least else []
