"""A queue scheduler, with partitions or without, that decides in compiled code."""

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.kernel.layout import State
from sim.partitioned import PartitionedScheduler
from sim.protocols import Scheduler
from sim.queueing import QueueScheduler
from sim.view import ClusterView, JobColumns
from sim.walk.desk import Desk, desk_of
from sim.walk.laying import lay_out
from sim.walk.plan import Rule, rule_of
from sim.walk.walking import OWN, queue_of, walk


class WalkedScheduler:
    """Stands in for a scheduler that `rule_of` knows how to walk for: the same decisions."""

    def __init__(self, scheduler: QueueScheduler | PartitionedScheduler, rule: Rule) -> None:
        """`scheduler` still routes arrivals and says in which order jobs come."""
        self._whole = scheduler
        self._child = scheduler.child if isinstance(scheduler, PartitionedScheduler) else scheduler
        self._rule = rule
        self.name = scheduler.name
        self.needs = scheduler.needs
        self._desk: Desk | None = None
        self._jobs: JobColumns | None = None

    def reset(self, seed: int) -> None:
        """Forget the cluster of the last run."""
        self._whole.reset(seed)
        self._desk, self._jobs = None, None

    def decide(self, view: ClusterView) -> Decision:
        """The orders of `scheduler`."""
        at = view.jobs.partition[view.queued]
        routed = self._routed(view, at)
        desk = self._known(view)
        lay_out(
            desk, np.array(view.tenants), view.tenant, np.array(view.nic_jobs),
            np.array(view.uplink_jobs),
        )  # fmt: skip
        jobs = view.jobs
        job, where = self._in_order(view, at)
        may_go = jobs.forwards[job] < view.max_forwards
        count = walk(desk, self._rule, queue_of(job, jobs.num_gpus[job], where, may_go))
        return Decision(*_orders(desk, count, routed))

    def _routed(self, view: ClusterView, at: IntArray) -> list[Forward]:
        if isinstance(self._whole, PartitionedScheduler):
            return self._whole.route_arrivals(view, at)
        return []

    def _in_order(self, view: ClusterView, at: IntArray) -> tuple[IntArray, IntArray]:
        """The waiting jobs in order, and the partition in whose queue each is."""
        order = self._child.order(view)
        if order is view.queued:
            return order, at
        by_job = np.argsort(view.queued, kind="stable")
        return order, at[by_job[np.searchsorted(view.queued, order, sorter=by_job)]]

    def _known(self, view: ClusterView) -> Desk:
        if self._desk is None or self._jobs is not view.jobs:
            self._desk, self._jobs = desk_of(view, self._rule), view.jobs
        return self._desk


def walked(scheduler: Scheduler, state: State) -> WalkedScheduler | None:
    """What stands in for `scheduler` in this run; None where Python has to decide."""
    rule = rule_of(scheduler, state)
    if rule is None or not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        return None
    return WalkedScheduler(scheduler, rule)


def _orders(
    desk: Desk, count: int, routed: list[Forward]
) -> tuple[tuple[Start, ...], tuple[int, ...], tuple[Forward, ...]]:
    jobs, first = desk.job[:count].tolist(), desk.first[: count + 1].tolist()
    starts = tuple(
        Start(job, desk.gpus[begin:end].copy())
        for job, begin, end in zip(jobs, first[:-1], first[1:], strict=True)
    )
    taken = [
        Forward(job, taker)
        for job, taker in zip(jobs, desk.taker[:count].tolist(), strict=True)
        if taker != OWN
    ]
    return starts, (), (*routed, *taken)
