"""Fair shares: dominant resources between users (DRF), finish times by auctions (Themis)."""

import math

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.decision import Start
from sim.engine.composed import QueueScheduler
from sim.engine.occupancy import Occupancy
from sim.errors import GpuYardError
from sim.jit import array_kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.protocols import Placer
from sim.rounds import RoundScheduler, Share, gang_gpus, gpus_up, present
from sim.view import ClusterView, JobColumns, Signal

OWNER_KINDS = 3  # users, virtual clusters, jobs of nobody known
RESOURCES = 3  # GPUs, cores, memory


def owners_of(jobs: JobColumns, rows: IntArray) -> IntArray:
    """(n,) owner of each job: its user, else its virtual cluster, else the job itself."""
    alone: IntArray = OWNER_KINDS * rows + 2
    if jobs.identity is None:
        return alone
    user, vc = jobs.identity.user[rows], jobs.identity.vc[rows]
    shared: IntArray = np.where(vc >= 0, OWNER_KINDS * vc + 1, alone)
    return np.where(user >= 0, OWNER_KINDS * user, shared)


def worker_shares(view: ClusterView, rows: IntArray) -> FloatArray:
    """(n, 3) what one worker of each job takes, as fractions of the GPUs, cores and memory.

    Of all servers that the view owns, whether they are up or not. A resource that the cluster does
    not count is never short: its fraction is 0.
    """
    topology, servers = view.topology, view.servers
    gpus_milli = WHOLE_GPU_MILLI * int(topology.gpus_per_server[servers].sum())
    demands = view.jobs.demands
    if demands is None:
        return np.tile([WHOLE_GPU_MILLI / max(gpus_milli, 1), 0.0, 0.0], (len(rows), 1))
    columns = (
        (demands.gpu_milli, gpus_milli),
        (demands.cpu_milli, _total(topology.server_cpu_milli, servers)),
        (demands.memory_mib, _total(topology.server_memory_mib, servers)),
    )
    return np.stack([asked[rows] / most if most > 0 else 0.0 * rows for asked, most in columns], 1)


def _total(room: IntArray | None, servers: IntArray) -> float:
    """What the servers have together; 0 where it is not counted."""
    if room is None:
        return 0.0
    return float(room[servers].sum(dtype=np.float64))


def held_shares(view: ClusterView, occupancy: Occupancy, owners: IntArray) -> FloatArray:
    """(u, 3) fractions of GPUs, cores and memory that each of `owners` (ascending) holds now.

    As booked in `occupancy`, on the servers that the view owns.
    """
    mine = np.zeros(view.topology.num_servers, dtype=np.bool_)
    mine[view.servers] = True
    tenant = occupancy.tenant[mine[view.topology.gpu_server]]
    workers = tenant[tenant >= 0]  # one entry for each worker: the row of its job
    owner = owners_of(view.jobs, workers)
    at = np.minimum(np.searchsorted(owners, owner), len(owners) - 1)
    waits = owners[at] == owner  # owners of whom nobody waits do not matter
    held = np.zeros((len(owners), RESOURCES))
    np.add.at(held, at[waits], worker_shares(view, workers[waits]))
    return held


class Drf(QueueScheduler):
    """The user who holds the least dominant share of the cluster starts a job next.

    Source: dominant resource fairness (Ghodsi et al., NSDI 2011, section 4), as the schedulers of
    deep-learning jobs compare with it. A user's dominant share is the largest of the fractions of
    all GPUs, cores and memory that his running jobs hold; it grows with each job he is given, in
    the same decision too (progressive filling). Nobody is preempted.

    Chosen here where the paper is silent: a user's jobs start in order of submission; of users with
    equal shares the one whose next job asks for the least dominant share goes first, then the
    earlier job. With `skip_blocked` a job that cannot be placed lets the user's next one try, then
    the other users; without it the decision ends, as in the paper. A job of unknown user belongs
    to its virtual cluster; where that is unknown too, it is a user of its own, so that without
    identities the least request goes first. A resource that the cluster does not count is never
    dominant. In the partitioned form shares are those of the partition.
    """

    order_name = "drf"
    order_needs = Signal.NONE
    between_users = True

    def order(self, view: ClusterView) -> IntArray:
        """The queue as it stands; whose turn it is changes with every start (see `fill`)."""
        return view.queued

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start what fits, each time for the user with the least dominant share then."""
        turns = _Turns(view, occupancy, order)
        likes = self._columns_of_kind(view, order)
        may_refuse = self.may_refuse(view.tenant.shape[1])
        starts: list[Start] = []
        while (at := turns.next()) is not None:
            job = int(order[at])
            gpus = self.sharing.place(view, occupancy, job, self.placer, self.rng)
            if gpus is not None:
                occupancy.occupy(job, gpus)
                starts.append(Start(job, gpus))
                turns.give(at)
            elif not skip_blocked:
                break
            elif may_refuse:  # usable GPUs only shrink here, so its like would fail too
                turns.waits &= np.any([column != column[at] for column in likes], axis=0)
            else:
                turns.waits[at] = False
        return starts

    def _columns_of_kind(self, view: ClusterView, rows: IntArray) -> list[IntArray]:
        """`kind_of` of many jobs: jobs that are equal in all columns can be placed alike."""
        jobs, demands = view.jobs, view.jobs.demands
        columns = [jobs.num_gpus]
        if demands is not None:
            columns += [
                demands.gpu_milli, demands.cpu_milli, demands.memory_mib, demands.type_mask
            ]  # fmt: skip
        if Signal.PROFILE in self.sharing.needs:
            columns.append(jobs.profile)
        return [column[rows] for column in columns]


class _Turns:
    """Whose job is next among q waiting ones; positions are those in the queue."""

    def __init__(self, view: ClusterView, occupancy: Occupancy, queue: IntArray) -> None:
        """Everybody waits, and holds what `occupancy` says."""
        owners, self._user = np.unique(owners_of(view.jobs, queue), return_inverse=True)
        self._asks: FloatArray = worker_shares(view, queue) * view.jobs.num_gpus[queue][:, None]
        self._held = held_shares(view, occupancy, owners)
        self._by_user = np.argsort(self._user, kind="stable")
        self._row = queue
        self.waits: BoolArray = np.ones(len(queue), dtype=np.bool_)

    def next(self) -> int | None:
        """Position of the next job, None when nobody waits."""
        waiting = self._by_user[self.waits[self._by_user]]
        if len(waiting) == 0:
            return None
        user = self._user[waiting]
        heads = waiting[np.concatenate([[True], user[1:] != user[:-1]])]
        share = self._held.max(axis=1)[self._user[heads]]
        heads = heads[share == share.min()]
        best = np.lexsort((self._row[heads], self._asks[heads].max(axis=1)))[0]
        return int(heads[best])

    def give(self, at: int) -> None:
        """The job at this position got what it asks for."""
        self._held[self._user[at]] += self._asks[at]
        self.waits[at] = False


@array_kernel
def _choose(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    best = np.zeros(room + 1)
    taken = np.zeros((len(sizes), room + 1), dtype=np.bool_)
    for item in range(len(sizes)):
        size = sizes[item]
        for space in range(room, size - 1, -1):
            value = best[space - size] + values[item]
            if value > best[space]:
                best[space] = value
                taken[item, space] = True
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    space = room
    for item in range(len(sizes) - 1, -1, -1):
        if taken[item, space]:
            chosen[item] = True
            space -= sizes[item]
    return chosen


def most_valuable(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    """(n,) which to take so that the sum of values is the largest that fits; exact.

    Dynamic programming, n x room steps. Of equally good choices the one with earlier items.

    Args:
        sizes: (n,) 1 or more each.
        values: (n,) above 0.
        room: what the sizes of those taken may come to; 0 or more.
    """
    if sizes.sum() <= room:
        return np.ones(len(sizes), dtype=np.bool_)
    return _choose(sizes, values, room)


SHORTEST_S = 1.0  # predictions below this, and those exceeded, count as this much


class Themis(RoundScheduler):
    """Every lease an auction among the jobs with the worst finish-time fairness.

    Source: Mahajan and others, "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.

    How it works: rho = T_shared / T_independent of each job, on predictions. T_shared is its age
    plus its predicted remaining time with the gang it asks for; T_independent what it would take
    with 1/N of the cluster: predicted duration x max(1, N x gang / GPUs), N the jobs present. Of
    them the 1 - `fairness_knob` with the largest rho bid. The auction (partial allocation: the
    product of 1 / rho is made as large as it can be) chooses the gangs with the largest sum of
    logarithmic improvements that fit into the GPUs that are up: an exact knapsack. An improvement
    is the rho of a job that sits out the round over the rho of one that runs: T_independent
    cancels, and 1 + round / T_shared is left. What they do not use goes to the others, worst rho
    first, so that no GPU stays idle that somebody can use.

    What the paper leaves open or does otherwise: its apps are searches of many jobs that take any
    number of GPUs; ours are single gangs, all or nothing. Its rho of a job without GPUs is
    infinite; sitting out one round makes it comparable. Its leases run out one by one; here all
    end at the round's end, and jobs that come or find GPUs in between hold theirs until then, by
    the same auction. Leftovers go to jobs at random there. Its hidden payments, which keep apps
    from lying in their bids, are left out: the bids are computed here. Where GPUs are placed is
    the placer's choice and no part of a bid.
    """

    order_name = "themis"
    order_needs = Signal.PREDICTION
    makes_room = True

    def __init__(self, *, placer: Placer, round_s: float, fairness_knob: float) -> None:
        """`round_s`: a lease; `fairness_knob`: share of the jobs that is not offered GPUs first.

        Raises:
            GpuYardError: `round_s` is not above 0, or the knob not from 0 to below 1.
        """
        super().__init__(placer=placer, round_s=round_s)
        if not 0 <= fairness_knob < 1:
            raise GpuYardError(
                f"scheduler.fairness_knob is {fairness_knob}; it must be from 0 to below 1"
            )
        self.fairness_knob = fairness_knob

    def allot(self, view: ClusterView) -> list[Share]:
        """The auction over all GPUs that are up."""
        return self._auctioned(view, present(view), int(gpus_up(view).sum()))

    def leftovers(self, view: ClusterView) -> list[Share]:
        """Everybody, worst rho first."""
        jobs = present(view)
        return _gangs(view, jobs[_worst_first(self._rho(view, jobs))])

    def newcomers(self, view: ClusterView) -> list[Share]:
        """The auction of what is free among those who wait, then everybody."""
        free = int(view.server_free[view.servers].sum())
        if len(view.queued) == 0:
            return []
        first = self._auctioned(view, view.queued, free)
        won = {share.job for share in first}
        jobs = view.queued[_worst_first(self._rho(view, view.queued))]
        return first + [share for share in _gangs(view, jobs) if share.job not in won]

    def _auctioned(self, view: ClusterView, jobs: IntArray, gpus: int) -> list[Share]:
        """Winners, then who else fits into `gpus`; both worst rho first."""
        jobs = jobs[_worst_first(self._rho(view, jobs))]
        asked = np.ceil(gang_gpus(view, jobs)).astype(np.int64)
        bidders = max(1, math.ceil((1.0 - self.fairness_knob) * len(jobs)))
        gain = np.log1p(self.round_s / _shared_s(view, jobs[:bidders]))
        wins = np.zeros(len(jobs), dtype=np.bool_)
        wins[:bidders] = most_valuable(asked[:bidders], gain, gpus)
        left = gpus - int(asked[wins].sum())
        others = []
        for at in np.flatnonzero(~wins & (asked <= left)).tolist():
            if asked[at] <= left:
                left -= int(asked[at])
                others.append(at)
        return _gangs(view, np.concatenate([jobs[wins], jobs[others]]))

    def _rho(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) predicted finish-time fairness; larger is worse."""
        together = len(view.queued) + len(view.running)
        gpus = max(1, int(gpus_up(view).sum()))
        turns = np.maximum(1.0, together * gang_gpus(view, jobs) / gpus)
        alone_s = np.maximum(view.jobs.estimate_s[jobs], SHORTEST_S) * turns
        rho: FloatArray = _shared_s(view, jobs) / alone_s
        return rho


def _shared_s(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) age and predicted remaining time."""
    left_s = np.maximum(view.jobs.predicted_remaining_s[jobs], SHORTEST_S)
    total_s: FloatArray = view.now_s - view.jobs.submit_s[jobs] + left_s
    return total_s


def _worst_first(rho: FloatArray) -> IntArray:
    return np.argsort(-rho, kind="stable")


def _gangs(view: ClusterView, jobs: IntArray) -> list[Share]:
    return [Share(job, int(view.jobs.num_gpus[job])) for job in jobs.tolist()]
