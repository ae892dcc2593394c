"""When and where a blocked job will run, if running jobs end as predicted.

One imagined machine under preemptive shortest remaining time first, driven by the real clock.

With preemption allowed and work known, this order has the least total completion time of all
(Schrage, Operations Research 16(3), 1968); A-SRPT copies the order of its completions.

Whose a job is, and what part of the cluster's GPUs, cores and memory its owner holds.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.occupancy import Occupancy
from sim.protocols import Placer, Sharing
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView, JobColumns


class Ending(NamedTuple):
    """A job that holds GPUs, and when it is expected to give them back."""

    end_s: float
    job: int
    gpus: IntArray


class Reservation(NamedTuple):
    """GPUs that a blocked job is to get at `shadow_s`."""

    shadow_s: float
    gpus: IntArray

    def outside(self, occupancy: Occupancy) -> Occupancy:
        """A copy of `occupancy` in which the reserved GPUs are full."""
        rest = occupancy.copy()
        rest.tenants[self.gpus] = rest.tenant.shape[1]
        return rest


class Reserver(NamedTuple):
    """Tries a job on the GPUs that others are expected to leave."""

    view: ClusterView
    placer: Placer
    sharing: Sharing
    rng: np.random.Generator

    def reserve(self, occupancy: Occupancy, endings: list[Ending], job: int) -> Reservation | None:
        """The earliest end at which `job` has a place; None if it has none even after all ends.

        `endings` are in order of time. Bisection: what fits, fits after more ends too.
        """
        gpus = self._after(occupancy, endings, job)[0]
        if gpus is None:
            return None
        low, high = 0, len(endings)  # after `low` ends it has no place, after `high` it has
        while high - low > 1:
            middle = (low + high) // 2
            found, trial = self._after(occupancy, endings[low:middle], job)
            if found is None:
                low, occupancy = middle, trial
            else:
                high, gpus = middle, found
        return Reservation(endings[high - 1].end_s, gpus) if endings else None

    def _after(
        self, occupancy: Occupancy, endings: list[Ending], job: int
    ) -> tuple[IntArray | None, Occupancy]:
        """GPUs for `job` once these have ended, and who holds what then."""
        trial = occupancy.copy()
        for ending in endings:
            trial.release(ending.job, ending.gpus)
        return self.sharing.place(self.view, trial, job, self.placer, self.rng), trial


class VirtualMachine:
    """Works on one job at a time, one second of work a second, always that with least work left.

    A newcomer takes over if it has strictly less work than what is left of the job being worked
    on; among waiting jobs of equal work the lower row goes first. Completion times are kept as
    times and not as remainders, so that whoever is woken at `next_s` finds that job completed.
    """

    def __init__(self) -> None:
        """Start empty, at the beginning of time."""
        self._now_s = -math.inf
        self._current: int | None = None
        self._done_s = math.inf  # when `_current` completes if nobody takes over
        self._waiting: list[tuple[float, int]] = []  # heap of (work left in seconds, job)

    def __len__(self) -> int:
        """Jobs that are not complete."""
        return len(self._waiting) + (self._current is not None)

    @property
    def jobs(self) -> list[int]:
        """Rows of the jobs that are not complete, in no order."""
        own = [] if self._current is None else [self._current]
        return own + [job for _, job in self._waiting]

    @property
    def next_s(self) -> float | None:
        """When the next job completes if nobody comes; None where there is none."""
        return None if self._current is None else self._done_s

    def advance(self, now_s: float) -> list[int]:
        """Let time pass until `now_s`; the jobs completed by then, in order of completion."""
        done: list[int] = []
        while self._current is not None and self._done_s <= now_s:
            done.append(self._current)
            self._now_s = self._done_s
            self._take_next()
        self._now_s = now_s
        return done

    def submit(self, job: int, work_s: float) -> None:
        """Bring `job` with `work_s` seconds of work, at the time last advanced to."""
        if self._current is None:
            self._current, self._done_s = job, self._now_s + work_s
            return
        left_s = self._done_s - self._now_s
        if work_s < left_s:
            heapq.heappush(self._waiting, (left_s, self._current))
            self._current, self._done_s = job, self._now_s + work_s
        else:
            heapq.heappush(self._waiting, (work_s, job))

    def drop(self, job: int) -> None:
        """Forget a job that will not be wanted any more; unknown jobs are ignored."""
        if job == self._current:
            self._take_next()
            return
        self._waiting = [entry for entry in self._waiting if entry[1] != job]
        heapq.heapify(self._waiting)

    def _take_next(self) -> None:
        self._current, self._done_s = None, math.inf
        if self._waiting:
            work_s, self._current = heapq.heappop(self._waiting)
            self._done_s = self._now_s + work_s


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
