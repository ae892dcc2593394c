"""What Gandiva keeps: orders of one decision, who is packed, which servers are for which gangs."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import Occupancy
from sim.jit import array_kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.physics.laws import NO_COST, WHOLE, comm_of, joining_cost
from sim.physics.mix_table import Slowing, pairs_alone, put_tenant
from sim.physics.reference import reference_steps_s, spread_of
from sim.placers.filling import filled
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal, Slots


class Orders:
    """Starts and preemptions at one instant; a job that is stopped and started again moves."""

    def __init__(self, view: ClusterView) -> None:
        """Nothing ordered yet."""
        self.view = view
        self.occupancy = Occupancy(view)
        self.starts: dict[int, IntArray] = {}
        self.preempts: list[int] = []
        # Whether an empty GPU is all that a worker needs: every server is up, nobody asks for more.
        self.plain = view.jobs.demands is None and not view.server_closed.any()

    def __bool__(self) -> bool:
        """Whether anything is ordered."""
        return bool(self.starts or self.preempts)

    def start(self, job: int, gpus: IntArray) -> None:
        """Start `job` on `gpus`."""
        self.occupancy.occupy(job, gpus)
        self.starts[job] = gpus

    def stop(self, job: int) -> None:
        """Preempt the running `job`."""
        self.occupancy.vacate(job, self.view.gpus_of(job))
        self.preempts.append(job)

    def untouched(self) -> list[int]:
        """Running jobs that go on where they are, ascending."""
        stopped = set(self.preempts)
        return [job for job in self.view.running.tolist() if job not in stopped]

    def decision(self, wake_s: float | None) -> Decision:
        """What to hand to the simulator."""
        starts = tuple(Start(job, gpus) for job, gpus in self.starts.items())
        return Decision(starts=starts, preempts=tuple(self.preempts), wake_s=wake_s)


@array_kernel
def pair_costs(slowing: Slowing, feasible: BoolArray, least_speed: float) -> FloatArray:
    """(T, P, P) `joining_cost` of a newcomer of p beside o, where both ask for all of the GPU."""
    cost, tenants = np.empty(feasible.shape), np.empty(4, dtype=np.int64)
    for gpu_type, mine, other in np.ndindex(feasible.shape):
        put_tenant(tenants, 0, other, WHOLE)
        put_tenant(tenants, 1, mine, WHOLE)
        cost[gpu_type, mine, other] = joining_cost(
            slowing, feasible, gpu_type, tenants, 1, least_speed
        )
    return cost


@array_kernel
def costs_beside_one(  # noqa: PLR0917 - arrays go by position into compiled code
    tenants: IntArray,  # (G,)
    tenant: IntArray,  # (G, C)
    gpu_server: IntArray,  # (G,)
    server_type: IntArray,  # (S,)
    profile: IntArray,  # (J,)
    job: int,
    pair_cost: FloatArray,
) -> FloatArray:
    """(G,) of joining the one tenant of each GPU; NO_COST where there is none, or several."""
    cost = np.full(len(tenants), NO_COST)
    for gpu in range(len(tenants)):
        if tenants[gpu] == 1:
            gpu_type = server_type[gpu_server[gpu]]
            cost[gpu] = pair_cost[gpu_type, profile[job], profile[tenant[gpu, 0]]]
    return cost


@array_kernel
def residents(
    tenants: IntArray, tenant: IntArray, cost: FloatArray, num_gpus: IntArray, gang: int
) -> tuple[IntArray, FloatArray]:
    """Gangs of `gang` alone on as many GPUs that may all be joined; the cost of the worst of each.

    `cost` (G,) is that of joining each GPU, NO_COST where that may not be.
    """
    owner, worst = np.empty(len(tenants), dtype=np.int64), np.zeros(len(tenants))
    count, found = np.zeros(len(tenants), dtype=np.int64), 0
    for gpu in range(len(tenants)):  # one pass: the first GPU enters a gang, all count for it
        if tenants[gpu] != 1 or cost[gpu] == NO_COST or num_gpus[tenant[gpu, 0]] != gang:
            continue
        at = found if gang == 1 else 0
        while at < found and owner[at] != tenant[gpu, 0]:  # a table of all jobs would cost more
            at += 1
        if at == found:
            owner[at] = tenant[gpu, 0]
            found += 1
        worst[at] = max(worst[at], cost[gpu])
        count[at] += 1
    whole = np.flatnonzero(count[:found] == gang)
    return owner[whole], worst[whole]


class LoneSpeed:
    """Work a second of jobs that share neither their GPUs nor links; needs INTERFERENCE.

    Where links are shared the belief's tables stand for them.
    """

    def __init__(self, view: ClusterView) -> None:
        """Tabulate the reference steps of every gang that the cluster can hold."""
        self._belief = replace(view.belief, links=None)
        self._topology = view.topology
        self._server_type = view.server_type
        gangs = np.arange(1, view.topology.num_gpus + 1)
        self._reference_s = reference_steps_s(gangs, view.topology, self._belief)

    def of(self, profile: int, gpus: IntArray) -> float:
        """Speed of a gang of `profile` with all it asked for, on `gpus`; 1 on the reference."""
        servers = self._topology.gpu_server[gpus]
        comm = comm_of(self._belief.network, profile, spread_of(self._topology, servers))
        compute_s = self._belief.catalogue.compute_s[profile, self._server_type[servers]].max()
        step_s = float(compute_s) + comm.local_s + comm.server_s + comm.rack_s
        return float(self._reference_s[profile, len(gpus)] / step_s)


TAKING_TURNS = 1.0  # combined speed of two jobs that take turns, in jobs alone
PAIR = 2  # tenants
ROUNDING_S = 1e-6  # a wake-up that falls this little before the end of a trial counts as on it


class Since(NamedTuple):
    """Work that a job had done at some time."""

    at_s: float
    progress_s: float


class Pack(NamedTuple):
    """A newcomer on the GPUs of a resident, and how fast each is alone there."""

    newcomer: int
    resident: int
    newcomer_since: Since
    resident_since: Since
    newcomer_alone: float  # work a second
    resident_alone: float


class Packs:
    """Pairs of jobs on the same GPUs, each on trial at first."""

    def __init__(self, *, least_speed: float, trial_s: float) -> None:
        """`least_speed`: predicted combined speed to try a pair; `trial_s`: how long to watch."""
        self._least_speed = least_speed
        self._trial_s = trial_s
        self._trials: dict[int, Pack] = {}  # by newcomer
        self._partner: dict[int, int] = {}  # both ways
        self._failed: set[frozenset[int]] = set()  # pairs
        self._failures: set[int] = set()  # jobs of these pairs
        self._alone: dict[int, Since] = {}  # since when jobs have their GPUs to themselves
        self._speed: LoneSpeed | None = None
        self._pair_cost: FloatArray | None = None  # of the belief

    def alone(self, view: ClusterView, job: int) -> None:
        """`job` has GPUs to itself from now on; so has whoever it was packed with."""
        partner = self._partner.pop(job, None)
        self._alone[job] = _now(view, job)
        self._trials.pop(job, None)
        if partner is not None:
            self.alone(view, partner)

    def refresh(self, view: ClusterView) -> None:
        """Forget who runs no more; whom a partner has left is alone."""
        running = set(view.running.tolist())
        for job in self._partner.keys() - running:
            self.alone(view, job)
        self._alone = {job: since for job, since in self._alone.items() if job in running}

    def failed(self, view: ClusterView) -> list[int]:
        """Newcomers whose trial is over and was slower than taking turns; never tried again."""
        unpacked = []
        for pack in tuple(self._trials.values()):
            if self._due_s(view, pack) > view.now_s + ROUNDING_S:
                continue
            del self._trials[pack.newcomer]
            speed = _rate(view, pack.newcomer, pack.newcomer_since) / pack.newcomer_alone
            speed += _rate(view, pack.resident, pack.resident_since) / pack.resident_alone
            if speed < TAKING_TURNS:
                unpacked.append(pack.newcomer)
                self._failed.add(frozenset((pack.newcomer, pack.resident)))
                self._failures |= {pack.newcomer, pack.resident}
        return unpacked

    def __bool__(self) -> bool:
        """Whether anybody is packed."""
        return bool(self._partner)

    def has_joined(self, view: ClusterView, job: int) -> bool:
        """Whether `job` is packed, and the later one on its GPUs."""
        return job in self._partner and bool(view.tenant[view.gpus_of(job)[0], PAIR - 1] == job)

    def has_failed(self, job: int) -> bool:
        """Whether a trial of `job` has failed."""
        return job in self._failures

    def wake_s(self, view: ClusterView) -> float | None:
        """When the next trial is over."""
        return min((self._due_s(view, pack) for pack in self._trials.values()), default=None)

    def resident_for(self, orders: Orders, job: int) -> int | None:
        """The running gang of equal size beside which `job` is predicted to cost least.

        That is a gang alone on its GPUs since before this decision, on each of which the two are
        together predicted to exceed `least_speed`, with cores and memory left for the newcomer.
        Cost is that of its worst GPU: own slow-down times the other's; ties go to the lowest job
        row.
        """
        view, occupancy = orders.view, orders.occupancy
        cost = self._costs(orders, job)
        gang = int(view.jobs.num_gpus[job])
        found = residents(occupancy.tenants, occupancy.tenant, cost, view.jobs.num_gpus, gang)
        owners: list[int] = found[0].tolist()
        for _, resident in sorted(zip(found[1].tolist(), owners, strict=True)):
            fresh = resident in orders.starts or frozenset((job, resident)) in self._failed
            if not fresh and occupancy.has_room(view, job, view.gpus_of(resident)):
                return resident
        return None

    def _costs(self, orders: Orders, job: int) -> FloatArray:
        """(G,) of joining the tenant of each GPU; NO_COST where that is not worth it."""
        view, occupancy = orders.view, orders.occupancy
        if not orders.plain or view.gpu_limit_milli < PAIR * WHOLE_GPU_MILLI:
            return occupancy.shared(view, job, self._least_speed).cost
        if self._pair_cost is None:
            pairs, least_speed = view.belief.pairs, self._least_speed
            self._pair_cost = pair_costs(pairs_alone(pairs.slowdown), pairs.feasible, least_speed)
        return costs_beside_one(
            occupancy.tenants, occupancy.tenant, view.topology.gpu_server, view.server_type,
            view.jobs.profile, job, self._pair_cost,
        )  # fmt: skip

    def pack(self, view: ClusterView, newcomer: int, resident: int) -> None:
        """Put `newcomer` on trial on the GPUs of `resident`."""
        gpus = view.gpus_of(resident)
        profile = view.jobs.profile
        if self._speed is None:
            self._speed = LoneSpeed(view)
        measured = self._measured(view, resident)
        predicted = self._speed.of(int(profile[resident]), gpus)
        self._trials[newcomer] = Pack(
            newcomer=newcomer,
            resident=resident,
            newcomer_since=_now(view, newcomer),
            resident_since=_now(view, resident),
            newcomer_alone=self._speed.of(int(profile[newcomer]), gpus),
            resident_alone=predicted if measured is None else measured,
        )
        self._partner[newcomer], self._partner[resident] = resident, newcomer

    def _measured(self, view: ClusterView, job: int) -> float | None:
        """Speed of a job that has been watched alone for long enough."""
        since = self._alone.get(job)
        if since is None or view.now_s - _from_s(view, job, since) < self._trial_s:
            return None
        rate = _rate(view, job, since)
        return rate if rate > 0 else None

    def _due_s(self, view: ClusterView, pack: Pack) -> float:
        began_s = max(
            _from_s(view, pack.newcomer, pack.newcomer_since),
            _from_s(view, pack.resident, pack.resident_since),
        )
        return began_s + self._trial_s


def _now(view: ClusterView, job: int) -> Since:
    return Since(view.now_s, float(view.jobs.progress_s[job]))


def _from_s(view: ClusterView, job: int, since: Since) -> float:
    """When it began to work: a restart is no measure of speed."""
    return max(since.at_s, float(view.jobs.resume_s[job]))


def _rate(view: ClusterView, job: int, since: Since) -> float:
    """Work a second since then."""
    took_s = view.now_s - _from_s(view, job, since)
    return (float(view.jobs.progress_s[job]) - since.progress_s) / took_s


NO_CLASS = 0
SAME, UNCLAIMED, OTHERS = 0, 1, 2  # in order of preference


class Affinity:
    """A placer that remembers which size of gang each server is for.

    An empty server is for nobody; the first gang placed on it claims it for its size until it is
    empty again. A gang goes to one server if one has room: of its own size, else unclaimed, else
    any; of these to the one with most usable GPUs, lowest index on ties. If none has room it
    spreads over the servers with most usable GPUs, and never waits for a better place.
    """

    name = "affinity"
    needs = Signal.NONE

    def __init__(self, topology: Topology) -> None:
        """No server is claimed."""
        self._claimed = np.full(topology.num_servers, NO_CLASS, dtype=np.int64)  # (S,) gang size
        self._topology = topology

    def forget_empty(self, occupancy: Occupancy) -> None:
        """Give up the claims on servers without a tenant."""
        servers = self._topology.gpu_server[occupancy.tenants > 0]
        held = np.bincount(servers, minlength=self._topology.num_servers)
        self._claimed[held == 0] = NO_CLASS

    def claim(self, gang: int, gpus: IntArray) -> None:
        """Claim the servers of a gang that was placed, where nobody has."""
        servers = np.unique(self._topology.gpu_server[gpus])
        self._claimed[servers[self._claimed[servers] == NO_CLASS]] = gang

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        claimed = self._claimed[slots.servers]
        rank = np.where(claimed == gang, SAME, np.where(claimed == NO_CLASS, UNCLAIMED, OTHERS))
        rank[usable < gang] = OTHERS + 1
        # Where no server has room for all of it the ranks are equal: most usable GPUs first.
        servers = slots.servers[np.lexsort((-usable, rank))]
        return filled(slots, servers, gang)
