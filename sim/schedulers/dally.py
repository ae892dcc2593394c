"""Dally: leases, delay scheduling over machine, rack and network, network-sensitive priority."""

import math
from dataclasses import dataclass, field

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.demands_room import ask_of
from sim.errors import GpuYardError
from sim.occupancy import Occupancy
from sim.placing.delay_timers import MANUAL, DelayTimers, Patience
from sim.placing.tiers import MACHINE, NETWORK, RACK, needed_tier, offer, tier_of
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView

RATE_DIGITS = 9  # rates that differ less are ties


@dataclass
class _Plan:
    """What one decision has come to so far."""

    view: ClusterView
    occupancy: Occupancy
    free: int  # empty GPUs left
    starts: list[Start] = field(default_factory=list)
    needed: dict[tuple[int, ...], int] = field(default_factory=dict)  # tier a kind of job needs
    refused: dict[tuple[int, ...], int] = field(default_factory=dict)  # widest tier without room
    patience: dict[int, Patience] = field(default_factory=dict)  # by gang, as the instant began


class Dally:
    """Dally (Sharma et al., arXiv 2401.16492), after the description of its authors' simulator.

    GPUs are leased for `lease_s`; then the job queues again, its work kept. At every decision the
    waiting jobs are offered what is free, in order of network sensitivity: work done over running
    time, queueing excluded, lowest first, since that job has been hurt most by the network; a new
    job has 0. Ties go to the earlier last assignment, then to the lower row. A job accepts GPUs of
    the first machine that has them; of the first rack once it has waited `rack_leases`, or if no
    machine could hold it; any once it has waited `network_leases`, or if no rack could hold it.
    Else it declines and waits. `timers` are `auto` (learned by demand from the waits of accepted
    offers: `sim.placing.delay_timers`), `manual`, `no_wait` (both 0) or `consolidated` (both
    infinite).

    Chosen here, where the description is silent: work is counted on the most compact placement, so
    the priority's ideal time is that and not the time without any network. The wait counts from
    the last assignment (or arrival), as described. A job whose lease ends is offered its own GPUs,
    if they are still free at its turn and no narrower tier is on offer; it accepts them by the same
    timers, so that a spread job tries for a better place after every lease. Renewing costs nothing,
    is no wait and is not recorded. Of a rack, or of the cluster, machines with most free GPUs go
    first. Timers change between instants only. Held GPUs, the first tie-breaker there, are always
    0: a lease is for the whole gang. It wakes when a timer runs out of a job for
    which enough is free.
    """

    order_name = "dally"
    one_queue = True
    needs = Signal.NONE

    def __init__(
        self,
        *,
        lease_s: float,
        timers: str,
        rack_leases: float,
        network_leases: float,
        history_leases: float,
    ) -> None:
        """Set the lease and the timers, counted in leases; see conf/scheduler/dally.yaml.

        Raises:
            GpuYardError: the rule of the timers is unknown, or a number is out of range.
        """
        if not 0 < lease_s < math.inf:
            raise GpuYardError(f"scheduler.lease_s is {lease_s}; it must be above 0 seconds")
        manual = Patience(rack_leases, network_leases)
        self.lease_s = float(lease_s)
        self.timers = DelayTimers(
            timers=timers, lease_s=self.lease_s, manual=manual, history_leases=history_leases
        )
        by_hand = f"{rack_leases:g}-{network_leases:g}" if timers == MANUAL else ""
        self.name = f"{self.order_name}+{timers}{by_hand}"
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget assignments and the history of accepted offers."""
        del seed
        self.timers.forget()
        self._assigned_s: FloatArray = np.zeros(0)  # (J,) last assignment, or arrival
        self._leased: dict[int, tuple[float, IntArray]] = {}  # by job: end of its lease, its GPUs

    def decide(self, view: ClusterView) -> Decision:
        """Offer the free GPUs to the waiting jobs in order."""
        if len(self._assigned_s) != len(view.jobs.submit_s):
            self._assigned_s = view.jobs.submit_s.copy()
        plan = _Plan(view, Occupancy(view), int(view.server_free[view.servers].sum()))
        parts = view.jobs.demands is not None  # parts of a GPU fit where none is empty
        for job in self.order(view).tolist():
            if parts or plan.free >= view.jobs.num_gpus[job]:
                self._bid(plan, job)
        return Decision(starts=tuple(plan.starts), wake_s=self._wake_s(plan, parts))

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs, most sensitive first."""
        jobs = view.queued
        run_s = view.jobs.attained_gpu_s[jobs] / view.jobs.num_gpus[jobs]
        rate = np.zeros(len(jobs))
        np.divide(view.jobs.progress_s[jobs], run_s, out=rate, where=run_s > 0)
        return jobs[np.lexsort((jobs, self._assigned_s[jobs], np.round(rate, RATE_DIGITS)))]

    def _bid(self, plan: _Plan, job: int) -> None:
        """Offer what is left to `job`; start it if it accepts."""
        view, gang = plan.view, int(plan.view.jobs.num_gpus[job])
        like = gang, *ask_of(view.jobs.demands, job)
        renews = self._renews(view, job)
        if like not in plan.needed:
            slots = plan.occupancy.exclusive(view, job)
            plan.needed[like] = needed_tier(slots, gang)
        widest = self._widest(plan, job, gang, plan.needed[like])
        if not renews and plan.refused.get(like, -1) >= widest:
            return
        slots = plan.occupancy.exclusive(view, job)
        accepted = self._kept(slots, job, gang, widest) if renews else None
        if accepted is None:
            found = offer(slots, gang, widest)
            if found is None:
                plan.refused[like] = max(widest, plan.refused.get(like, -1))
                return
            tier, accepted = found
            if not renews:
                self._record(view.now_s, job, gang, tier)
        plan.occupancy.take(job, accepted)
        plan.free -= gang
        plan.starts.append(Start(job, accepted, self.lease_s))
        self._assigned_s[job] = view.now_s
        self._leased[job] = view.now_s + self.lease_s, accepted

    def _renews(self, view: ClusterView, job: int) -> bool:
        """Whether the job's lease ends at this instant."""
        lease = self._leased.get(job)
        return lease is not None and lease[0] == view.now_s

    def _kept(self, slots: Slots, job: int, gang: int, widest: int) -> IntArray | None:
        """The GPUs of the lease that ends, or better ones; None if it may not keep them."""
        gpus = self._leased[job][1]
        tier = tier_of(slots.topology, gpus)
        if tier > widest or not slots.usable[gpus].all():
            return None
        narrower = offer(slots, gang, tier - 1)
        return gpus if narrower is None else narrower[1]

    def _widest(self, plan: _Plan, job: int, gang: int, needed: int) -> int:
        """The widest tier that the job accepts by now."""
        if gang not in plan.patience:
            plan.patience[gang] = self.timers.patience(gang, plan.view.now_s)
        now_s, since_s = plan.view.now_s, self._assigned_s[job]
        rack_leases, network_leases = plan.patience[gang]
        if needed >= NETWORK or now_s >= since_s + network_leases * self.lease_s:
            return NETWORK
        if needed == RACK or now_s >= since_s + rack_leases * self.lease_s:
            return RACK
        return MACHINE

    def _record(self, now_s: float, job: int, gang: int, tier: int) -> None:
        """Remember how long the job waited for what it accepts."""
        wait_leases = (now_s - float(self._assigned_s[job])) / self.lease_s
        if tier == MACHINE:
            self.timers.machine.record(gang, now_s, wait_leases)
        elif tier == RACK:
            self.timers.rack.record(gang, now_s, wait_leases)

    def _wake_s(self, plan: _Plan, parts: bool) -> float | None:
        """When the next timer of a waiting job runs out, if there is room for its gang."""
        view = plan.view
        started = [start.job for start in plan.starts]
        waiting = view.queued[~np.isin(view.queued, started)]
        gangs = view.jobs.num_gpus[waiting]
        soonest_s = math.inf
        for gang, (rack_leases, network_leases) in plan.patience.items():
            if not parts and gang > plan.free:
                continue
            since_s = self._assigned_s[waiting[gangs == gang]]
            for leases in (rack_leases, network_leases):
                due_s = since_s + leases * self.lease_s
                soonest_s = min(soonest_s, float(due_s[due_s > view.now_s].min(initial=math.inf)))
        return soonest_s if soonest_s < math.inf else None
