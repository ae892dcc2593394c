"""Dominant resource fairness between users."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.codes import ASKED
from sim.decision import Start
from sim.engine.composed import ByArrival
from sim.engine.occupancy import Occupancy
from sim.jobs import WHOLE_GPU_MILLI
from sim.view import ClusterView, JobColumns, Signal

OWNER_KINDS = 3  # users, virtual clusters, jobs of nobody known
RESOURCES = 3  # GPUs, cores, memory
ROUNDING = 1e-9  # of shares: sums of like parts differ by the order of adding


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
    return 0.0 if room is None else float(room[servers].sum(dtype=np.float64))


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


class Drf(ByArrival):
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
    between_users = True
    engine_code = ASKED  # `fill` is, where more than one waits and somebody has room

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
        """`class_of` of many jobs: jobs that are equal in all columns can be placed alike."""
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
        heads = heads[share <= share.min() + ROUNDING]
        best = np.lexsort((self._row[heads], self._asks[heads].max(axis=1)))[0]
        return int(heads[best])

    def give(self, at: int) -> None:
        """The job at this position got what it asks for."""
        self._held[self._user[at]] += self._asks[at]
        self.waits[at] = False
