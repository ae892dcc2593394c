"""Dally: leases, delay scheduling over machine, rack and network, network-sensitive priority.

And Tiresias on leases, as the simulator of Dally's authors has it.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import Occupancy
from sim.errors import GpuYardError, check_numbers
from sim.jobs import ask_of
from sim.physics.published_profiles import compute_share
from sim.placers import tiers
from sim.placers.by_room import Skew
from sim.view import ClusterView, Signal

RATE_DIGITS = 9  # rates that differ less are ties
COMPACT, NO_NETWORK = "compact", "no_network"
IDEALS = (COMPACT, NO_NETWORK)


@dataclass
class _Bidding:
    """What one decision has come to so far."""

    view: ClusterView
    occupancy: Occupancy
    free: int  # empty GPUs left
    starts: list[Start] = field(default_factory=list)
    needed: dict[tuple[int, ...], int] = field(default_factory=dict)  # tier a kind of job needs
    refused: dict[tuple[int, ...], int] = field(default_factory=dict)  # widest tier without room
    # By gang, as the instant began.
    patience: dict[int, tiers.Patience] = field(default_factory=dict)


class Dally:
    """Leases, first to whom the network has slowed most; gangs wait for compact GPUs by timers.

    Dally (Sharma et al., arXiv 2401.16492), after the description of its authors' simulator. GPUs
    are leased for `lease_s`; then the job queues again, its work kept. At every decision the
    waiting jobs are offered what is free, in order of network sensitivity: work done over running
    time, queueing excluded, lowest first, since that job has been hurt most by the network; a new
    job has 0. Ties go to the earlier last assignment, then to the lower row. A job accepts GPUs of
    the first machine that has them; of the first rack once it has waited `rack_leases`, or if no
    machine could hold it; any once it has waited `network_leases`, or if no rack could hold it.
    Else it declines and waits. `timers` are `auto` (learned by demand from the waits of accepted
    offers: `sim.placers.tiers`), `manual`, `no_wait` (both 0) or `consolidated` (both
    infinite).

    `ideal` is what a job's speed is compared with: `no_network`, as described, where models that
    communicate much go first for ever, even on the best of places; or `compact`, the most compact
    placement, where only who was spread does, and who was not takes turns. Whatever else slows a
    job, such as a slower GPU type, counts as the network's doing: the authors simulate one type.

    A job whose lease ends bids like any other, as described: it is offered the first place with
    room, accepts by the same timers, and this counts as a wait of a lease. So jobs drift to the
    first machines, gangs find the others empty, and a spread gang tries for a better place after
    every lease. Chosen here: on the servers it is offered a job keeps its own GPUs if it can, which
    costs nothing; of a rack, or of the cluster, machines with most free GPUs go first; who takes
    any GPUs is offered a rack's first, where one has them; timers change between instants only.
    Held GPUs, the first tie-breaker there, are always 0: a lease is for the whole gang. It wakes
    when a timer runs out of a job for which enough is free.
    """

    order_name = "dally"
    one_queue = True
    preempts = True  # leases end

    def __init__(
        self, *, lease_s: float, ideal: str, timers: str, rack_leases: float, network_leases: float,
        history_leases: float,
    ) -> None:  # fmt: skip
        """Set the lease and the timers, counted in leases; see conf/scheduler/dally.yaml."""
        check_numbers("scheduler", "above 0", lease_s=lease_s)
        if ideal not in IDEALS:
            raise GpuYardError(
                f"scheduler.ideal is {ideal!r}; it must be one of {', '.join(IDEALS)}"
            )
        manual = tiers.Patience(rack_leases, network_leases)
        self.lease_s = float(lease_s)
        self.timers = tiers.DelayTimers(
            timers=timers, lease_s=self.lease_s, manual=manual, history_leases=history_leases
        )
        self.ideal = ideal
        without = ideal == NO_NETWORK
        self.needs = Signal.PROFILE | Signal.INTERFERENCE if without else Signal.NONE
        by_hand = f"{rack_leases:g}-{network_leases:g}" if timers == tiers.MANUAL else ""
        self.name = f"{self.order_name}+{timers}{by_hand}" + (f"+{ideal}" if without else "")
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget assignments and the history of accepted offers."""
        del seed
        self.timers.forget()
        self._assigned_s: FloatArray = np.zeros(0)  # (J,) last assignment, or arrival
        self._compute_share: FloatArray | None = None  # (J,) of a step on compact placements
        self._leased: dict[int, tuple[float, IntArray]] = {}  # by job: end of its lease, its GPUs

    def decide(self, view: ClusterView) -> Decision:
        """Offer the free GPUs to the waiting jobs in order."""
        if len(self._assigned_s) != len(view.jobs.submit_s):
            self._assigned_s = view.jobs.submit_s.copy()
        bidding = _Bidding(view, Occupancy(view), int(view.server_free[view.servers].sum()))
        parts = view.jobs.demands is not None  # parts of a GPU fit where none is empty
        for job in self.order(view).tolist():
            if parts or bidding.free >= view.jobs.num_gpus[job]:
                self._bid(bidding, job)
        return Decision(starts=tuple(bidding.starts), wake_s=self._wake_s(bidding, parts))

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs, most sensitive first."""
        jobs = view.queued
        run_s = view.jobs.attained_gpu_s[jobs] / view.jobs.num_gpus[jobs]
        rate = np.zeros(len(jobs))
        np.divide(self._ideal_s(view)[jobs], run_s, out=rate, where=run_s > 0)
        return jobs[np.lexsort((jobs, self._assigned_s[jobs], np.round(rate, RATE_DIGITS)))]

    def _ideal_s(self, view: ClusterView) -> FloatArray:
        """(J,) ideal seconds of the work done so far; work is counted on compact placements."""
        if self.ideal == COMPACT:
            return view.jobs.progress_s
        if self._compute_share is None:
            share = compute_share(view.jobs.num_gpus, view.topology, view.belief)
            self._compute_share = share[view.jobs.profile, view.jobs.num_gpus]
        return view.jobs.progress_s * self._compute_share

    def _bid(self, bidding: _Bidding, job: int) -> None:
        """Offer what is left to `job`; start it if it accepts."""
        view, gang = bidding.view, int(bidding.view.jobs.num_gpus[job])
        like = gang, *ask_of(view.jobs.demands, job)
        if like not in bidding.needed:
            bidding.needed[like] = tiers.needed_tier(bidding.occupancy.exclusive(view, job), gang)
        widest = self._widest(bidding, job, gang, bidding.needed[like])
        if bidding.refused.get(like, -1) >= widest:
            return
        slots = bidding.occupancy.exclusive(view, job)
        found = tiers.offer(slots, gang, widest)
        if found is None:
            bidding.refused[like] = widest
            return
        tight = bidding.occupancy.tightest(view, job)  # a part of a GPU, where least is left over
        tier, offered = (tight and tiers.offer(tight, gang, found[0])) or found
        if tier < tiers.RACK or self._takes_rack(bidding, job, gang, bidding.needed[like]):
            self._record(view.now_s, job, gang, tier)
        accepted = self._own(bidding, job, offered)
        bidding.occupancy.occupy(job, accepted)
        bidding.free -= gang
        bidding.starts.append(Start(job, accepted, self.lease_s))
        self._assigned_s[job] = view.now_s
        self._leased[job] = view.now_s + self.lease_s, accepted

    def _own(self, bidding: _Bidding, job: int, offered: IntArray) -> IntArray:
        """The GPUs of the lease that ends now, if they are free on the servers offered."""
        view, (end_s, own) = bidding.view, self._leased.get(job, (-math.inf, offered))
        if end_s != view.now_s or not bidding.occupancy.fits(view, job, own):
            return offered
        server = view.topology.gpu_server
        return own if np.array_equal(np.sort(server[own]), np.sort(server[offered])) else offered

    def _widest(self, bidding: _Bidding, job: int, gang: int, needed: int) -> int:
        """The widest tier that the job accepts by now."""
        if gang not in bidding.patience:
            bidding.patience[gang] = self.timers.patience(gang, bidding.view.now_s)
        network_s = bidding.patience[gang].network_leases * self.lease_s
        if needed >= tiers.NETWORK or bidding.view.now_s >= self._assigned_s[job] + network_s:
            return tiers.NETWORK
        return tiers.RACK if self._takes_rack(bidding, job, gang, needed) else tiers.MACHINE

    def _takes_rack(self, bidding: _Bidding, job: int, gang: int, needed: int) -> bool:
        """Whether a rack will do as a rack: by its own timer, not by the network's alone.

        What is taken as any GPUs tells nothing of how long racks are waited for.
        """
        rack_s = bidding.patience[gang].rack_leases * self.lease_s
        return bool(needed == tiers.RACK or bidding.view.now_s >= self._assigned_s[job] + rack_s)

    def _record(self, now_s: float, job: int, gang: int, tier: int) -> None:
        """Remember how long the job waited for what it accepts."""
        wait_leases = (now_s - float(self._assigned_s[job])) / self.lease_s
        if tier == tiers.MACHINE:
            self.timers.machine.record(gang, now_s, wait_leases)
        elif tier == tiers.RACK:
            self.timers.rack.record(gang, now_s, wait_leases)

    def _wake_s(self, bidding: _Bidding, parts: bool) -> float | None:
        """When the next timer of a waiting job runs out, if there is room for its gang."""
        view = bidding.view
        started = [start.job for start in bidding.starts]
        waiting = view.queued[~np.isin(view.queued, started)]
        gangs = view.jobs.num_gpus[waiting]
        soonest_s = math.inf
        for gang, (rack_leases, network_leases) in bidding.patience.items():
            if not parts and gang > bidding.free:
                continue
            since_s = self._assigned_s[waiting[gangs == gang]]
            for leases in (rack_leases, network_leases):
                due_s = since_s + leases * self.lease_s
                soonest_s = min(soonest_s, float(due_s[due_s > view.now_s].min(initial=math.inf)))
        return soonest_s if soonest_s < math.inf else None


class TiresiasOnLeases(Dally):
    """Leases, to whom has the least attained service (GPU-seconds); skewed models stay together.

    The Tiresias that Dally's authors compare with, after the description of their simulator
    (Sharma et al., arXiv 2401.16492): all GPUs are offered again when a lease ends, as in `Dally`;
    a job takes the first machine with room; a gang of a model with one dominant tensor waits for a
    machine, or a rack if no machine could hold it, and other gangs take the first rack, then any
    GPUs. No queues, no promotion. Chosen here: ties go to the earlier last assignment, then to the
    lower row, as there.
    """

    order_name = "tiresias_leased"

    def __init__(self, *, lease_s: float, placer: Skew) -> None:
        """`placer` knows which models are skewed (conf/placer/skew.yaml)."""
        super().__init__(
            lease_s=lease_s, ideal=COMPACT, timers=tiers.CONSOLIDATED, rack_leases=0.0,
            network_leases=0.0, history_leases=1.0,
        )  # fmt: skip
        self._placer = placer
        self.needs, self.name = placer.needs, self.order_name

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs, least attained service first."""
        jobs = view.queued
        return jobs[np.lexsort((jobs, self._assigned_s[jobs], view.jobs.attained_gpu_s[jobs]))]

    def _widest(self, bidding: _Bidding, job: int, gang: int, needed: int) -> int:
        del gang
        view = bidding.view
        skewed = self._placer.skewed(view.belief.catalogue)[view.jobs.profile[job]]
        return needed if skewed else tiers.NETWORK

    def _takes_rack(self, bidding: _Bidding, job: int, gang: int, needed: int) -> bool:
        del bidding, job, gang, needed
        return True
