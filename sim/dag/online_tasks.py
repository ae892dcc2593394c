"""What the list generator reads: the cluster, and the unfinished tasks of all workflows in it.

Present are tasks that are submitted and not over, all that they wait for submitted, too. A view
shows who waits and who runs. Blocked tasks are neither, and nor are those that are over, so who was
seen is remembered.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.engine.occupancy import Occupancy
from sim.handle import Handle
from sim.jit import array_kernel, kernel
from sim.jobs import Precedence, ask_of
from sim.physics.laws import NetworkTables, Spread, comm_of
from sim.physics.reference import reference_steps_s, spread_of
from sim.traces.trace import owners, picked, starts, units_of
from sim.view import ClusterView

PENDING = -1.0  # end of a task that does not run


@dataclass(frozen=True, eq=False)
class Site(Handle):
    """A cluster and what is believed of speeds on it; P profiles, T GPU types."""

    server_type: IntArray  # (S,)
    server_rack: IntArray  # (S,)
    compute_s: FloatArray  # (P, T) of an iteration
    network: NetworkTables  # nobody else is expected on the links
    reference_s: FloatArray  # (P, N + 1) iteration of n GPUs on which work is counted


class Tasks(NamedTuple):
    """n tasks, parents before children; times in seconds from now."""

    profile: IntArray  # (n,)
    gang: IntArray  # (n,) GPUs
    kind: IntArray  # (n,) row of `fit`
    work_s: FloatArray  # (n,) predicted, at speed 1; 0 for one that runs
    end_s: FloatArray  # (n,) predicted for one that runs, else PENDING
    workflow: IntArray  # (n,) from 0
    first_parent: IntArray  # (n + 1,)
    parent: IntArray  # (E,) unfinished ones
    first_child: IntArray  # (n + 1,)
    child: IntArray  # (E,)
    fit: IntArray  # (K, S) GPUs of each server that tasks of a kind could ever use


@kernel
def pace(  # noqa: PLR0917  (compiled)
    site: Site, profile: int, gang: int, gpu_type: int, most: int, servers: int, racks: int
) -> float:
    """Seconds that a second of work takes on GPUs of `gpu_type`, so spread."""
    comm = comm_of(site.network, profile, Spread(most, servers, racks, 1, 1))
    step: float = site.compute_s[profile, gpu_type] + (comm.local_s + comm.server_s) + comm.rack_s
    slow: float = step / site.reference_s[profile, gang]
    return slow


@array_kernel
def mean_lengths_s(site: Site, tasks: Tasks) -> FloatArray:
    """(n,) time of each task, mean over the GPUs that it could use; of one that runs what is left.

    Spread as little as these servers allow.
    """
    length = np.empty(len(tasks.gang))
    for task in range(len(length)):  # tasks x servers steps, once a decision
        if tasks.end_s[task] != PENDING:
            length[task] = tasks.end_s[task]
            continue
        fit, gang = tasks.fit[tasks.kind[task]], tasks.gang[task]
        largest = max(1, fit.max())
        servers, total, gpus = -(-gang // largest), 0.0, 0
        for server in range(len(fit)):  # each counts by the GPUs that the task could use there
            gpu_type = site.server_type[server]
            here = pace(site, tasks.profile[task], gang, gpu_type, min(gang, largest), servers, 1)
            total += fit[server] * here
            gpus += fit[server]
        length[task] = tasks.work_s[task] * total / max(gpus, 1)
    return length


@array_kernel
def times_to_go_s(tasks: Tasks, length_s: FloatArray) -> FloatArray:
    """(n,) from each task's start to the end of its workflow along the longest way."""
    to_go = length_s.copy()
    for task in range(len(to_go) - 1, -1, -1):  # children have larger numbers: theirs is final
        # A workflow is over when its last branch is: of the children the longest way counts.
        for edge in range(tasks.first_child[task], tasks.first_child[task + 1]):
            to_go[task] = max(to_go[task], length_s[task] + to_go[tasks.child[edge]])
    return to_go


class Presence:
    """Follows the tasks of one run from decision to decision.

    A task is over once it was seen and is no longer there, or if all that it waited for is over
    and it is not there: then it left with a parent. One whose user gave it up while it was blocked
    is taken for blocked until then.
    """

    def __init__(self, view: ClusterView) -> None:
        """Nobody has arrived."""
        jobs = len(view.jobs.num_gpus)
        self.precedence = view.jobs.precedence or _alone(jobs)
        self.workflow = units_of(view.jobs.precedence, jobs)  # (J,) in order of their first jobs
        self._depth = depths(self.precedence.first, self.precedence.parents)
        self._seen: BoolArray = np.zeros(jobs, dtype=np.bool_)
        self._over: BoolArray = np.zeros(jobs, dtype=np.bool_)
        self._arrived = 0
        self._present: IntArray = np.zeros(0, dtype=np.int64)

    def follow(self, view: ClusterView) -> tuple[IntArray, bool]:
        """(n,) tasks in the system, parents first; and whether some of them are new."""
        arrived = int(np.searchsorted(view.jobs.submit_s, view.now_s, side="right"))
        fresh = arrived > self._arrived
        if fresh:
            tasks = np.concatenate([self._present, np.arange(self._arrived, arrived)])
            self._present = tasks[np.lexsort((tasks, self._depth[tasks]))]
            self._arrived = arrived
        here = np.zeros(len(self._seen), dtype=np.bool_)
        here[view.queued] = True
        here[view.running] = True
        first, parents = self.precedence.first, self.precedence.parents
        self._present = not_over(self._present, here, self._seen, self._over, first, parents)
        return known(self._present, arrived, first, parents), fresh


def _alone(jobs: int) -> Precedence:
    """Nobody waits for anybody."""
    return Precedence(
        np.zeros(jobs + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.full(jobs, -1, dtype=np.int64),
    )


@array_kernel
def depths(first: IntArray, parents: IntArray) -> IntArray:
    """(J,) edges on the longest way to each job; of those in a circle, whatever comes out."""
    jobs = len(first) - 1
    depth = np.zeros(jobs, dtype=np.int64)
    changed, rounds = True, 0
    while changed and rounds <= jobs:  # a circle would never settle
        changed, rounds = False, rounds + 1
        for job in range(jobs):  # by number: where parents come first one round does
            for edge in range(first[job], first[job + 1]):  # one beyond the deepest parent
                if depth[job] <= depth[parents[edge]]:
                    depth[job] = depth[parents[edge]] + 1
                    changed = True
    return depth


@array_kernel
def not_over(
    tasks: IntArray, here: BoolArray, seen: BoolArray, over: BoolArray, first: IntArray,
    parents: IntArray,
) -> IntArray:  # fmt: skip
    """Those of `tasks`, parents first, that are not over; marks whom it sees, and who is over."""
    kept = np.empty_like(tasks)
    count = 0
    for job in tasks:  # parents first: whether they are over is settled
        waits = False
        for edge in range(first[job], first[job + 1]):  # one parent that is not over blocks
            waits = waits or not over[parents[edge]]
        if here[job]:
            seen[job] = True
        elif seen[job] or not waits:
            over[job] = True
            continue
        kept[count] = job
        count += 1
    return kept[:count].copy()


@array_kernel
def known(tasks: IntArray, arrived: int, first: IntArray, parents: IntArray) -> IntArray:
    """Those of `tasks`, parents first, all of whose ancestors have been submitted."""
    hidden = np.zeros(arrived, dtype=np.bool_)
    for job in tasks:  # parents first, so hidden ones hide in one pass
        for edge in range(first[job], first[job + 1]):  # from `arrived` on nobody is submitted yet
            parent = parents[edge]
            hidden[job] = hidden[job] or parent >= arrived or hidden[parent]
    return tasks[~hidden[tasks]]


SHORTEST_S = 1.0  # that is left at least of a task that has outrun its prediction


def site_of(view: ClusterView) -> Site:
    """The cluster, and what is believed of speeds on it.

    Where jobs share links, by the tables that schedulers are told.
    """
    belief, topology = replace(view.belief, links=None), view.topology
    return Site(
        server_type=np.ascontiguousarray(view.server_type),
        server_rack=np.ascontiguousarray(topology.server_rack),
        compute_s=np.ascontiguousarray(belief.catalogue.compute_s),
        network=belief.network,
        reference_s=np.ascontiguousarray(reference_steps_s(view.jobs.num_gpus, topology, belief)),
    )


def capacity_of(view: ClusterView) -> IntArray:
    """(S,) GPUs of each server, none where it is away."""
    return np.where(view.server_closed == 0, view.topology.gpus_per_server, 0).astype(np.int64)


def tasks_of(
    view: ClusterView, jobs: IntArray, workflow: IntArray, precedence: Precedence,
    capacity: IntArray, running_s: FloatArray,
) -> Tasks:  # fmt: skip
    """The jobs (n,) in the system, parents first.

    Args:
        view: as of now.
        jobs: rows of the job table.
        workflow: (n,) from 0.
        precedence: of the whole table.
        capacity: (S,) GPUs that are up.
        running_s: (r,) time that each running job of the view takes still.
    """
    kind, fit = _fits(view, jobs, capacity)
    total = len(view.jobs.num_gpus)
    first_parent, parent, first_child, child = edges_among(
        jobs, total, precedence.first, precedence.parents
    )
    end_s = np.full(total, PENDING)
    end_s[view.running] = running_s
    return Tasks(
        profile=view.jobs.profile[jobs], gang=view.jobs.num_gpus[jobs], kind=kind,
        work_s=view.jobs.predicted_remaining_s[jobs], end_s=end_s[jobs], workflow=workflow,
        first_parent=first_parent, parent=parent, first_child=first_child, child=child, fit=fit,
    )  # fmt: skip


def slowness(view: ClusterView, site: Site, job: int, gpus: IntArray) -> float:
    """Seconds that a second of work of `job` takes on `gpus`."""
    server = view.topology.gpu_server[gpus]
    most, servers, racks, *_ = spread_of(view.topology, server)
    profile, gang = int(view.jobs.profile[job]), int(view.jobs.num_gpus[job])
    gpu_types = set(site.server_type[server].tolist())
    return max(pace(site, profile, gang, gpu_type, most, servers, racks) for gpu_type in gpu_types)


def left_s(
    view: ClusterView, jobs: IntArray, slowness: FloatArray, overrun_frac: float
) -> FloatArray:
    """(r,) time that running jobs are believed to take still, above 0; `slowness` (r,) is theirs.

    A job that has outrun its prediction is taken to have `overrun_frac` of it left.
    """
    left = view.jobs.predicted_remaining_s[jobs]
    over = np.maximum(overrun_frac * view.jobs.estimate_s[jobs], SHORTEST_S)
    restart = np.maximum(0.0, view.jobs.resume_s[jobs] - view.now_s)
    return np.where(left > 0.0, left, over) * slowness + restart


def _fits(view: ClusterView, jobs: IntArray, capacity: IntArray) -> tuple[IntArray, IntArray]:
    """(n,) kind of each job and (K, S) GPUs of each server that jobs of a kind could ever use."""
    demands = view.jobs.demands
    if demands is None:
        return np.zeros(len(jobs), dtype=np.int64), capacity[None, :]
    asks = [ask_of(demands, job) for job in jobs.tolist()]
    asker, occupancy = dict(zip(asks, jobs.tolist(), strict=True)), Occupancy(view)
    number = {ask: at for at, ask in enumerate(asker)}
    fit = np.array([np.minimum(occupancy.workers(job)[1], capacity) for job in asker.values()])
    return np.array([number[ask] for ask in asks], dtype=np.int64), fit


def edges_among(
    jobs: IntArray, total: int, first: IntArray, parents: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Parents of `jobs` (n,) among themselves as rows, and the same edges from the other end."""
    number = np.full(total, -1)
    number[jobs] = np.arange(len(jobs))
    begin, entries = picked(first, jobs)
    task, parent = owners(begin), number[parents[entries]]
    task, parent = task[parent >= 0], parent[parent >= 0]
    first_parent = starts(np.bincount(task, minlength=len(jobs)))
    first_child = starts(np.bincount(parent, minlength=len(jobs)))
    return first_parent, parent, first_child, task[np.argsort(parent, kind="stable")]
