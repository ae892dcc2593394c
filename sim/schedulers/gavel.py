"""Gavel: a linear program shares the time on each type of GPU; rounds carry it out."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision
from sim.errors import GpuYardError
from sim.protocols import Placer
from sim.rounds import RoundScheduler, Share
from sim.shares.gavel import (
    POLICIES,
    Classes,
    TimesReceived,
    classes_of,
    gang_gpus,
    gpus_up,
    present,
    relative_speeds,
    time_shares,
)
from sim.signals import Signal
from sim.view import ClusterView

ROUNDING_GPUS = 1e-9


class Gavel(RoundScheduler):
    """Runs jobs on the types of GPU where a linear program wants them, in rounds.

    Source: Narayanan and others, "Heterogeneity-Aware Cluster Scheduling Policies for Deep
    Learning Workloads", OSDI 2020, sections 4 (policies) and 5 (rounds).

    How it works: at every round a linear program gives each job its share X of the time on each
    type of GPU, from predicted throughputs (`gavel_lp`). `max_min` is the paper's
    heterogeneity-aware least attained service: the least throughput over jobs, each relative to
    what an equal share of every type would give it and times its gang, is made as large as it can
    be. `total_throughput` makes their sum large and may let jobs wait for as long as others are
    there. A job's priority on a type is X over the part of its time that it received there; pairs
    of job and type are served greedily, largest first, as far as the type's GPUs go. With one
    type of GPU nothing is left of it but sharing by turns.

    What the paper leaves open or does otherwise: X changes whenever jobs come and go, so what a
    job was entitled to is summed up over its stay and set against what it received, which is X
    over the part received where X does not change; the authors forget the past from time to
    time. Who has received nothing comes first. Throughputs are those of single GPUs
    (`compute_s`), gangs on one type scale alike on all. Jobs of equal speeds and gangs are one
    class of the program, which so stays small. Once the least throughput is as large as it can
    be, a second program makes the sum large, lest GPUs idle. A gang that no type can hold runs
    across types. Between rounds jobs start on what is free by the same priority, new ones among
    the first. Packing two jobs on a GPU is left out.
    """

    order_name = "gavel"
    order_needs = Signal.PROFILE | Signal.INTERFERENCE
    makes_room = True

    def __init__(self, *, placer: Placer, round_s: float, policy: str) -> None:
        """`policy`: `max_min` or `total_throughput`.

        Raises:
            GpuYardError: `round_s` is not above 0, or the policy unknown.
        """
        super().__init__(placer=placer, round_s=round_s)
        if policy not in POLICIES:
            raise GpuYardError(f"scheduler.policy is {policy}; use one of {', '.join(POLICIES)}")
        self.policy = policy
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Nobody has received anything."""
        super().reset(seed)
        self._times: TimesReceived | None = None
        self._solved: tuple[bytes, FloatArray] | None = None

    def decide(self, view: ClusterView) -> Decision:
        """Count the time received since the last decision, then decide as in every round."""
        if self._times is None:
            self._times = TimesReceived(view)
        self._times.count(view)
        return super().decide(view)

    def allot(self, view: ClusterView) -> list[Share]:
        """Pairs of job and type by priority, as far as the GPUs go."""
        assert self._times is not None
        jobs, gpus_of_type = present(view), gpus_up(view)
        if len(jobs) == 0:
            return []
        gpus, speed = gang_gpus(view, jobs), relative_speeds(view, jobs, gpus_of_type)
        classes, class_of = classes_of(gpus, speed, gpus_of_type)
        self._times.entitle(jobs, self._shares(classes, gpus_of_type)[class_of])
        asked = dict(zip(jobs.tolist(), gpus.tolist(), strict=True))
        left = gpus_of_type.astype(np.float64)
        taken: dict[int, Share] = {}
        for share in self._ranked(view, jobs, speed):
            if share.job not in taken and _fits(left, share, asked[share.job]):
                taken[share.job] = share
        return list(taken.values())

    def leftovers(self, view: ClusterView) -> list[Share]:
        """Every job on every type that it can use, by priority."""
        return self._alternatives(view, present(view))

    def newcomers(self, view: ClusterView) -> list[Share]:
        """Those who wait, likewise."""
        return self._alternatives(view, view.queued)

    def _alternatives(self, view: ClusterView, jobs: IntArray) -> list[Share]:
        if len(jobs) == 0:
            return []
        return self._ranked(view, jobs, relative_speeds(view, jobs, gpus_up(view)))

    def _shares(self, classes: Classes, gpus_of_type: IntArray) -> FloatArray:
        """The program's answer; the last one again where nothing has changed."""
        arrays = (classes.jobs, classes.gpus, classes.speed, gpus_of_type)
        key = b"".join(array.tobytes() for array in arrays)
        if self._solved is None or self._solved[0] != key:
            self._solved = key, time_shares(classes, gpus_of_type, self.policy)
        return self._solved[1]

    def _ranked(self, view: ClusterView, jobs: IntArray, speed: FloatArray) -> list[Share]:
        """Possible pairs: by priority, then share, then speed, then submission."""
        assert self._times is not None
        priority, entitled = self._times.priority(jobs, self.round_s)
        row, way = np.nonzero(speed > 0)
        keys = (way, row, -speed[row, way], -entitled[row, way], -priority[row, way])
        best = np.lexsort(keys)
        row, way = row[best], way[best]
        types = speed.shape[1] - 1
        gangs = view.jobs.num_gpus[jobs]
        return [
            Share(job, gpus, kind if kind < types else None)
            for job, gpus, kind in zip(
                jobs[row].tolist(), gangs[row].tolist(), way.tolist(), strict=True
            )
        ]


def _fits(left: FloatArray, share: Share, gpus: float) -> bool:
    """Take `gpus` of what is left of the share's type, or of all alike; False: too few."""
    there = left if share.gpu_type is None else left[share.gpu_type : share.gpu_type + 1]
    if there.sum() < gpus - ROUNDING_GPUS:
        return False
    there *= 1.0 - gpus / max(there.sum(), gpus)
    return True
