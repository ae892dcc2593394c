"""Gandiva: turns, packing on trial, migration, servers by size of gang."""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.gandiva import PAIR, Affinity, Orders, Packs
from sim.jobs import ask_of
from sim.placers.filling import filled
from sim.sharing import place_alone
from sim.view import ClusterView, Signal, Slots


class Takeover(NamedTuple):
    """GPUs for a job, and who must leave for it."""

    gpus: IntArray
    leavers: list[int]


class Turns:
    """Running jobs in the order in which they give way: the longest on their GPUs first.

    A gang takes over the GPUs of one of its own size where there is one, so a turn passes from
    place to place unchanged. Else a server is cleared for it as far as needed, the one with most
    empty GPUs first. A gang that no server can take whole has as many leave as it needs. Jobs that
    start in this decision, or are still restarting, give way to nobody.
    """

    def __init__(
        self, orders: Orders, since_s: Mapping[int, float], affinity: Affinity,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """`since_s`: when each running job got its GPUs."""
        self._orders, self._affinity, self._rng = orders, affinity, rng
        view = orders.view
        worked = [job for job in orders.untouched() if view.jobs.resume_s[job] < view.now_s]
        self._order = sorted(worked, key=lambda job: (since_s[job], job))
        self._of_gang: dict[int, list[int]] = defaultdict(list)
        self._on_server: dict[int, list[int]] = defaultdict(list)
        self._may_leave = np.zeros(len(view.jobs.num_gpus) + 1, dtype=np.bool_)
        self._may_leave[self._order] = True
        self._may_leave[-1] = True  # nobody (-1) is in nobody's way
        for job in self._order:
            self._of_gang[int(view.jobs.num_gpus[job])].append(job)
            for server in set(view.topology.gpu_server[view.gpus_of(job)].tolist()):
                self._on_server[server].append(job)

    def give_way(self, job: int) -> Takeover | None:
        """GPUs for `job`, booked nowhere yet; None if nobody's leaving would let it in."""
        gang = int(self._orders.view.jobs.num_gpus[job])
        for find in (self._swap, self._cleared_server, self._as_many_as_needed):
            takeover = find(job, gang)
            if takeover is not None:
                return takeover
        return None

    def left(self, job: int) -> None:
        """`job` gives its GPUs up."""
        self._may_leave[job] = False

    def _swap(self, job: int, gang: int) -> Takeover | None:
        view, occupancy = self._orders.view, self._orders.occupancy
        for holder in self._of_gang[gang]:
            if not self._may_leave[holder]:
                continue
            gpus = view.gpus_of(holder)
            tenants = np.unique(occupancy.tenant[gpus])
            tenants = tenants[tenants >= 0]
            for leavers in ([holder], tenants.tolist()):
                if not self._may_leave[leavers].all():
                    continue
                trial = self._without(leavers)
                if trial.fits(view, job, gpus):
                    return Takeover(gpus.copy(), leavers)
        return None

    def _cleared_server(self, job: int, gang: int) -> Takeover | None:
        view, occupancy = self._orders.view, self._orders.occupancy
        server = view.topology.gpu_server
        number = view.topology.num_servers
        clearable = self._may_leave[occupancy.tenant].all(axis=1)
        most = np.bincount(server[clearable], minlength=number)
        empty = np.bincount(server[occupancy.tenants == 0], minlength=number)
        for chosen in np.argsort(-empty, kind="stable").tolist():
            if most[chosen] < gang:
                continue
            trial, leavers = occupancy.copy(), []
            for holder in self._on_server[chosen]:
                if not self._may_leave[holder]:
                    continue
                trial.vacate(holder, view.gpus_of(holder))
                leavers.append(holder)
                slots = trial.exclusive(view, job)
                if slots.usable_per_server[chosen] >= gang:
                    gpus = filled(slots, np.array([chosen]), gang)
                    return Takeover(gpus, self._in_the_way(leavers, gpus))
        return None

    def _as_many_as_needed(self, job: int, gang: int) -> Takeover | None:
        view = self._orders.view
        trial, leavers = self._orders.occupancy.copy(), []
        slots = trial.exclusive(view, job)
        if slots.most_per_server.max() >= gang:
            return None  # it waits for a server rather than spread at the cost of others
        for holder in self._order:
            if not self._may_leave[holder]:
                continue
            trial.vacate(holder, view.gpus_of(holder))
            leavers.append(holder)
            gpus = self._affinity.place(gang, trial.exclusive(view, job), self._rng)
            if gpus is not None:
                return Takeover(gpus, self._in_the_way(leavers, gpus))
        return None

    def _without(self, leavers: list[int]) -> Occupancy:
        trial, view = self._orders.occupancy.copy(), self._orders.view
        trial.vacate_all((job, view.gpus_of(job)) for job in leavers)
        return trial

    def _in_the_way(self, leavers: list[int], gpus: IntArray) -> list[int]:
        """Those of `leavers` on these GPUs; all of them where cores and memory count too."""
        view = self._orders.view
        if view.jobs.demands is not None:
            return leavers
        taken = set(gpus.tolist())
        return [job for job in leavers if not taken.isdisjoint(view.gpus_of(job).tolist())]


ROUNDING_S = 1e-6  # a wake-up that falls this little before its time counts as on it
Kind = tuple[int, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class Gandiva:
    """Gives every job GPUs early, then improves: turns, packing on trial, migration.

    Source: Xiao et al., OSDI 2018. Jobs wait in one queue for the cluster, in the order in which
    they joined it: by arriving or by losing their GPUs. From its head each job gets, whichever
    comes first: empty GPUs by `Affinity`; the GPUs of a running gang of its size, if both together
    are predicted to run faster than `least_speed` jobs alone (packing, two jobs a GPU at most);
    when the last turn is `slice_s` old, and somebody has had GPUs for so long, the GPUs of those
    who have had theirs longest (`Turns`). Who gives way joins the end of the queue. A packed pair
    is watched for `trial_s`: if the sum of its two observed speeds over those alone is below 1,
    what taking turns would give, the newcomer leaves and the two are never packed again. A job's
    speed alone is what was seen before packing, or what the belief says of these GPUs. Every
    `migrate_every_s` a gang on more servers than it needs moves to as few as it needs if they are
    free; so does, while nobody waits, the later gang of a pair.

    Chosen here: turns pass all over the cluster at once, where the paper's servers keep their own;
    the paper packs by utilisation, unknown here, for which the predicted speed stands; all jobs
    are alike at a turn, however little they have had: large gangs would else wait for a turn with
    nobody new. Restarts come on top of a turn; where a
    preemption saves no work, turns must be longer than what lies between checkpoints. Left out:
    growing and shrinking. Elastic jobs run with the GPUs that they asked for.

    With `slice_s: null` and `packing: false` it is what Dally's authors simulate as Gandiva:
    arrival order, servers by size, any GPUs for gangs that no server holds, migration, no turns.
    The name then ends in what is off.
    """

    order_name = "gandiva"
    shares = True  # it may put a job beside others
    preempts = True
    one_queue = True  # it owns the whole cluster

    slice_s: float | None  # None: no turns
    packing: bool
    least_speed: float
    trial_s: float
    migrate_every_s: float | None  # None: no migration
    by_rack: bool = False  # a gang on several racks that one could hold is spread, too

    def __post_init__(self) -> None:
        """Raise a GpuYardError, naming key, value and rule, for one out of range."""
        times = {"slice_s": self.slice_s, "migrate_every_s": self.migrate_every_s}
        check_numbers("scheduler", "null, or above 0", **times)
        check_numbers("scheduler", "above 0", trial_s=self.trial_s)
        check_numbers("scheduler", "0 or more", least_speed=self.least_speed)
        self.needs = Signal.PROFILE | Signal.INTERFERENCE if self.packing else Signal.NONE
        self.reset(0)

    @property
    def name(self) -> str:
        """`gandiva`, and what is not as published."""
        parts = {
            "noslice": self.slice_s is None,
            "nopack": not self.packing,
            "nomove": self.migrate_every_s is None,
            "byrack": self.by_rack,
        }
        return "_".join([self.order_name, *(part for part, told in parts.items() if told)])

    def reset(self, seed: int) -> None:
        """Forget the queue's order, the claims on servers, and every trial."""
        self._rng = np.random.default_rng(seed)
        self._affinity: Affinity | None = None
        self._packs = Packs(least_speed=self.least_speed, trial_s=self.trial_s)
        self._joined_s: dict[int, float] = {}  # of waiting jobs
        self._since_s: dict[int, float] = {}  # when running jobs got their GPUs
        self._turned_s = self._move_s = -np.inf  # the last turn; the next look at who is spread
        self._at_rest: tuple[bytes, ...] = ()

    def decide(self, view: ClusterView) -> Decision:
        """Undo what failed, serve the queue, move who is spread."""
        orders = Orders(view)
        self._affinity_of(view).forget_empty(orders.occupancy)
        known = set(self._joined_s)
        self._joined_s = {job: self._joined_s.get(job, view.now_s) for job in view.queued.tolist()}
        before_us_s = view.jobs.resume_s  # of those that ran as we began
        self._since_s = {
            job: self._since_s.get(job, float(before_us_s[job])) for job in view.running.tolist()
        }
        self._packs.refresh(view)
        for job in self._packs.failed(view):
            self._stop(orders, job)
        queue = self._queue()
        turn = self.slice_s is not None and view.now_s >= self._turn_s(view) - ROUNDING_S
        rest = (view.running.tobytes(), view.server_closed.tobytes())
        if self._at_rest == rest and not orders and not turn:
            queue = [job for job in queue if job not in known]  # the others were refused just so
        self._serve(orders, queue, turn)
        stopped = len(orders.preempts)
        self._migrate(orders)
        if len(orders.preempts) > stopped:  # what they leave may suit who takes not any GPU
            self._serve(orders, self._queue(), turn=False)
        self._at_rest = () if orders else rest
        return orders.decision(self._wake_s(orders))

    def _queue(self) -> list[int]:
        """The waiting jobs in the order in which they joined."""
        return sorted(self._joined_s, key=self._joined_s.__getitem__)

    def _serve(self, orders: Orders, queue: list[int], turn: bool) -> None:
        """Start who can start, from the head; with `turn` others give way."""
        view, waiting = orders.view, deque(queue)
        turns: Turns | None = None
        refused: set[Kind] = set()  # as the cluster is
        stuck: set[Kind] = set()  # even if others gave way
        profile = view.jobs.profile if self.packing else None
        while waiting:
            job = waiting.popleft()
            kind = self._kind(view, job, profile)
            if kind not in refused:
                if self._fit_in(orders, job):
                    continue
                refused.add(kind)
            if not turn or kind in stuck or job in orders.preempts:
                continue
            if turns is None:
                turns = Turns(orders, self._since_s, self._affinity_of(view), self._rng)
                self._turned_s = view.now_s
            takeover = turns.give_way(job)
            if takeover is None:
                stuck.add(kind)
                continue
            for leaver in takeover.leavers:
                turns.left(leaver)
                self._stop(orders, leaver)
            self._start(orders, job, takeover.gpus)
            self._packs.alone(view, job)
            waiting.extend(takeover.leavers)
            given = view.jobs.held[takeover.leavers].sum()
            if given > len(takeover.gpus) or view.jobs.demands is not None:
                refused.clear()  # they leave more than the job takes, of GPUs or of parts

    def _fit_in(self, orders: Orders, job: int) -> bool:
        """Start `job` on empty GPUs, else beside a gang of its size."""
        view, affinity = orders.view, self._affinity_of(orders.view)
        gpus = None
        if not orders.plain or (orders.occupancy.tenants == 0).sum() >= view.jobs.num_gpus[job]:
            gpus = place_alone(view, orders.occupancy, job, affinity, self._rng)
        if gpus is not None:
            self._packs.alone(view, job)
        elif self.packing and view.tenant.shape[1] >= PAIR:
            resident = self._packs.resident_for(orders, job)
            if resident is None:
                return False
            gpus = view.gpus_of(resident).copy()
            self._packs.pack(view, job, resident)
        else:
            return False
        self._start(orders, job, gpus)
        return True

    def _migrate(self, orders: Orders) -> None:
        """Move who is spread, or packed while nobody waits, to as few servers as needed."""
        view = orders.view
        if self.migrate_every_s is None or view.now_s < self._move_s - ROUNDING_S:
            return
        occupancy, affinity = orders.occupancy, self._affinity_of(view)
        for job in orders.untouched():
            gpus = view.gpus_of(job)
            unpacks = not self._joined_s and self._packs.has_joined(view, job)
            spread = self._is_spread(view, gpus) and occupancy.tenants[gpus].max() == 1
            if not unpacks and not spread:
                continue
            occupancy.vacate(job, gpus)
            better = self._together(view, occupancy.exclusive(view, job), len(gpus))
            occupancy.occupy(job, gpus)
            if better is not None:
                orders.stop(job)
                orders.start(job, better)
                affinity.claim(len(better), better)
                self._packs.alone(view, job)

    def _together(self, view: ClusterView, slots: Slots, gang: int) -> IntArray | None:
        """GPUs of a gang that is not spread, in one rack where none was found at once."""
        affinity, rack = self._affinity_of(view), view.topology.server_rack
        racks = [np.ones(len(rack), dtype=np.bool_)]
        racks += [rack == each for each in range(view.topology.num_racks) if self.by_rack]
        for there in racks:
            found = affinity.place(gang, slots.on(there), self._rng)
            if found is not None and not self._is_spread(view, found):
                return found
        return None

    def _is_spread(self, view: ClusterView, gpus: IntArray) -> bool:
        """Whether a gang is on more servers, or racks, than the largest ones would need."""
        topology = view.topology
        server, each = topology.gpu_server[gpus], topology.gpus_per_server
        if len(np.unique(server)) > -(-len(gpus) // int(each.max())):
            return True
        if not self.by_rack:
            return False
        in_rack = np.bincount(topology.server_rack, weights=each)
        fewest = -(-len(gpus) // int(in_rack.max()))
        return len(np.unique(topology.server_rack[server])) > fewest

    def _start(self, orders: Orders, job: int, gpus: IntArray) -> None:
        orders.start(job, gpus)
        self._affinity_of(orders.view).claim(len(gpus), gpus)
        self._joined_s.pop(job, None)
        self._since_s[job] = orders.view.now_s

    def _stop(self, orders: Orders, job: int) -> None:
        orders.stop(job)
        self._packs.alone(orders.view, job)
        self._since_s.pop(job, None)
        self._joined_s[job] = orders.view.now_s

    def _affinity_of(self, view: ClusterView) -> Affinity:
        if self._affinity is None:
            self._affinity = Affinity(view.topology)
        return self._affinity

    def _kind(self, view: ClusterView, job: int, profile: IntArray | None) -> Kind:
        """Jobs of one kind are refused alike; who has failed in a pair is of its own kind.

        `profile` (J,) is None without packing.
        """
        row, itself = -1, -1
        if profile is not None:
            row = int(profile[job])
            itself = job if self._packs.has_failed(job) else -1
        return int(view.jobs.num_gpus[job]), row, itself, *ask_of(view.jobs.demands, job)

    def _turn_s(self, view: ClusterView) -> float:
        """When the next turn is due: restarts are no part of the one under way."""
        resume_s = view.jobs.resume_s
        began_s = {job: max(at_s, float(resume_s[job])) for job, at_s in self._since_s.items()}
        of_turn = [began_s[job] for job, at_s in self._since_s.items() if at_s == self._turned_s]
        first_s = min(began_s.values(), default=-np.inf)
        return max(self._turned_s, first_s, *of_turn) + (self.slice_s or 0.0)

    def _wake_s(self, orders: Orders) -> float | None:
        """The end of the next trial, the next turn if jobs wait, the next move if one is due."""
        view = orders.view
        times = [self._packs.wake_s(view)]
        places = [*orders.starts.values(), *map(view.gpus_of, orders.untouched())]
        if self._joined_s and places and self.slice_s is not None:  # else nobody can give way
            turn_s = self._turn_s(view)
            times.append(turn_s if turn_s > view.now_s else view.now_s + self.slice_s)
        moves = self.migrate_every_s
        unpacks = self._packs and not self._joined_s
        if moves is not None and (unpacks or any(self._is_spread(view, gpus) for gpus in places)):
            if self._move_s <= view.now_s:
                self._move_s = view.now_s + moves
            times.append(self._move_s)
        return min((time for time in times if time is not None), default=None)
