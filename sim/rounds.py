"""Round-based schedulers: GPUs are given out anew at every round, and kept in between."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.composed import still_waiting
from sim.engine.given import attribute, check_part
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.jobs import ask_of, gpus_of_workers
from sim.physics.catalogue import throughputs
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.protocols import PatientPlacer, Placer
from sim.sharing import place_alone
from sim.view import ClusterView, Signal


def gpus_up(view: ClusterView) -> IntArray:
    """(K,) GPUs of each of `Topology.gpu_types` on servers that the view owns and that are up."""
    topology, servers = view.topology, view.servers
    size = np.where(view.server_closed[servers] == 0, topology.gpus_per_server[servers], 0)
    types = len(topology.gpu_types)
    return np.bincount(topology.server_gpu_type[servers], size, types).astype(np.int64)


def worker_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that one worker of each asks for: 1, or the part that it shares."""
    return gpus_of_workers(view.jobs.demands, jobs)


def gang_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that the whole gang of each asks for."""
    return view.jobs.num_gpus[jobs] * worker_gpus(view, jobs)


def present(view: ClusterView) -> IntArray:
    """(n,) waiting and running jobs, ascending."""
    return np.sort(np.concatenate([view.queued, view.running]))


def gpus_between(view: ClusterView, jobs: IntArray) -> tuple[IntArray, IntArray]:
    """(len(jobs),) fewest and most GPUs of each; no more than the cluster has."""
    elastic, gang = view.jobs.elastic, view.jobs.num_gpus[jobs]
    least = gang if elastic is None else elastic.least_gpus[jobs]
    most = gang if elastic is None else elastic.most_gpus[jobs]
    return np.minimum(least, view.topology.num_gpus), np.minimum(most, view.topology.num_gpus)


class ToldScaling:
    """The table of a run's belief, made once."""

    def __init__(self) -> None:
        """Nothing is known before the first view."""
        self._belief: Physics | None = None
        self._table: FloatArray = np.zeros((0, 0))

    def throughput(self, view: ClusterView) -> FloatArray:
        """(P, G + 1) work of n of the cluster's G GPUs, most compact, over that of one.

        Measured numbers and, between and beyond them, the network that schedulers are told, which
        where jobs share links is not what the kernel charges by. Needs INTERFERENCE.
        """
        belief = view.belief
        if self._belief is not belief:
            without_links = replace(belief, links=None)
            numbers = np.arange(1, view.topology.num_gpus + 1)
            steps_s = reference_steps_s(numbers, view.topology, without_links)
            self._table = throughputs(steps_s, belief.catalogue.speedup)
            self._belief = belief
        return self._table


ROUNDING_S = 1e-6  # a wake-up that falls this little before a boundary counts as on it


class Share(NamedTuple):
    """What one job is to have for a round."""

    job: int
    gpus: int
    gpu_type: int | None = None  # row of `Topology.gpu_types`; None: any


def shares_of(jobs: IntArray, gpus: IntArray) -> list[Share]:
    """Of those who get any of `gpus` (len(jobs),), in order."""
    return [Share(*each) for each in zip(jobs.tolist(), gpus.tolist(), strict=True) if each[1]]


class RoundScheduler(ABC):
    """Every `round_s`, `allot` says which jobs get how many GPUs; the others are preempted.

    A running job that is to keep its number of GPUs, on the type it has, keeps its very GPUs.
    Jobs are placed on empty GPUs in the order of the list; whoever finds no place waits, or stays
    as it was if nobody has taken its GPUs by then. With `makes_room` such a job first sets aside
    those that would have kept their GPUs and come later in the list, as few as will do; they look
    for another place in their turn. What is left goes to `leftovers`. Who is still restarting keeps
    its GPUs before all others: rounds shorter than restarts would else do no work. Between rounds
    nobody is preempted: jobs of `newcomers` start on what is free. Rounds begin at multiples of
    `round_s`, or when a job comes after the next one was due.
    """

    order_name: str
    order_needs: Signal
    one_queue = True  # it owns the whole cluster
    preempts = True
    makes_room = False

    def __init__(self, *, placer: Placer, round_s: float) -> None:
        """`round_s`: seconds between redistributions, above 0."""
        check_numbers("scheduler", "above 0", round_s=round_s)
        self.placer = placer
        self.round_s = round_s
        self.patient = placer if isinstance(placer, PatientPlacer) else None
        check_part(placer, "placer", "name", "needs")
        self.needs = attribute(self, "order_needs") | placer.needs
        self._rng = np.random.default_rng(0)
        self._due_s = -np.inf

    @property
    def name(self) -> str:
        """`order+placer`."""
        return f"{attribute(self, 'order_name')}+{self.placer.name}"

    def reset(self, seed: int) -> None:
        """Begin with a round at the first job."""
        self._rng = np.random.default_rng(seed)
        self._due_s = -np.inf

    @abstractmethod
    def allot(self, view: ClusterView) -> list[Share]:
        """Who gets how many GPUs in the round that begins, most important first."""

    def leftovers(self, view: ClusterView) -> list[Share]:
        """Who may have what `allot` left over or could not use, in this order: here nobody.

        A job may be named several times: who has its place by then is passed over.
        """
        del view
        return []

    def newcomers(self, view: ClusterView) -> list[Share]:
        """Who may start between rounds, in this order: here every waiting job, its whole gang.

        A job may be named several times, with other shares that it would take, too.
        """
        return shares_of(view.queued, view.jobs.num_gpus[view.queued])

    def decide(self, view: ClusterView) -> Decision:
        """A new distribution where a round is due, else what fits beside it."""
        due = bool(view.now_s >= self._due_s - ROUNDING_S)
        preempts: list[int] = []
        starts: list[Start] = []
        if due:
            self._due_s = (np.floor((view.now_s + ROUNDING_S) / self.round_s) + 1) * self.round_s
            preempts, starts = self._redistribute(view, self.allot(view))
        empty = len(view.running) == 0 and not starts
        if (not due or empty) and _may_have_room(view):
            starts = self._placed(view, Occupancy(view), self.newcomers(view))
        # An empty cluster in which a round has just found no place for anybody: time alone will
        # not change that, and a run that cannot go on should end and say so.
        hopeless = due and empty and not starts
        return Decision(
            starts=tuple(starts),
            preempts=tuple(preempts),
            wake_s=self._asked_again_s(view, preempts, starts, None if hopeless else self._due_s),
        )

    def _asked_again_s(
        self, view: ClusterView, preempts: list[int], starts: list[Start], due_s: float | None
    ) -> float | None:
        """The next round, or when a placer that judges jobs says otherwise of one that waits."""
        times = [] if due_s is None else [float(due_s)]
        if self.patient is not None:
            waiting = still_waiting(view, starts, preempts)
            asked = [self.patient.wake_s(view, job) for job in waiting]
            times += [time_s for time_s in asked if time_s is not None]
        return min(times, default=None)

    def _redistribute(
        self, view: ClusterView, shares: Sequence[Share]
    ) -> tuple[list[int], list[Start]]:
        occupancy = Occupancy(view)
        running = view.running.tolist()
        first = restarting(view)
        others = {share.job: share for share in shares if share.gpus > 0 and share.job not in first}
        wanted = first | others
        keeps = {job for job in running if job in wanted and stays(view, wanted[job])}
        occupancy.vacate_all((job, view.gpus_of(job)) for job in running if job not in keeps)
        starts: list[Start] = []
        order = list(wanted.values())
        for rank, share in enumerate(order):
            if share.job in keeps:
                continue
            gpus = self._found(view, occupancy, share)
            if gpus is None and self.makes_room:
                later = [other.job for other in reversed(order[rank + 1 :]) if other.job in keeps]
                gpus = self._room_made(view, occupancy, share, later, keeps)
            if gpus is None:
                gpus = own_place(view, occupancy, share.job)
            if gpus is not None:
                occupancy.occupy(share.job, gpus)
                starts.append(Start(share.job, gpus))
        served = keeps | {start.job for start in starts}
        starts += self._placed(view, occupancy, self.leftovers(view), served)
        undisturbed = {start.job for start in starts if is_own_place(view, start)}
        preempts = [job for job in running if job not in keeps and job not in undisturbed]
        return preempts, [start for start in starts if start.job not in undisturbed]

    def _found(self, view: ClusterView, occupancy: Occupancy, share: Share) -> IntArray | None:
        gpu_type, of_server = share.gpu_type, view.topology.server_gpu_type
        return place_alone(
            view, occupancy, share.job, self.placer, self._rng,
            gang=share.gpus, on=None if gpu_type is None else of_server == gpu_type,
        )  # fmt: skip

    def _room_made(
        self,
        view: ClusterView,
        occupancy: Occupancy,
        share: Share,
        later: list[int],
        keeps: set[int],
    ) -> IntArray | None:
        """GPUs for `share` beside the fewest of `later` set aside; those leave `keeps`."""

        def attempt(count: int) -> IntArray | None:
            trial = occupancy.copy()
            trial.vacate_all((job, view.gpus_of(job)) for job in later[:count])
            return self._found(view, trial, share)

        if not later or attempt(len(later)) is None:
            return None
        counts = range(1, len(later))
        fewest = 1 + bisect_left(counts, True, key=lambda count: attempt(count) is not None)
        gpus = attempt(fewest)
        if gpus is not None:
            for job in occupancy.in_the_way(view, share.job, gpus, later[:fewest]):
                occupancy.vacate(job, view.gpus_of(job))
                keeps.discard(job)
        return gpus

    def _placed(
        self,
        view: ClusterView,
        occupancy: Occupancy,
        shares: Sequence[Share],
        served: Set[int] = frozenset(),
    ) -> list[Start]:
        """Start who finds a place and is not `served` yet, in order, booking it in `occupancy`.

        Somebody who ran goes on where it was, if it still can.
        """
        starts: dict[int, Start] = {}
        running = set(view.running.tolist())
        # Free GPUs only shrink on the way, so the like of a refused share would fail, too; not so
        # where the placer looks at more than the number.
        refused: set[tuple[int | None, ...]] = set()
        for share in shares:
            like = share.gpus, share.gpu_type, *ask_of(view.jobs.demands, share.job)
            if share.job in served or share.job in starts:
                continue
            gpus = None
            if share.job in running and stays(view, share):
                gpus = own_place(view, occupancy, share.job)
            if gpus is None and like not in refused:
                gpus = self._found(view, occupancy, share)
            if gpus is not None:
                occupancy.occupy(share.job, gpus)
                starts[share.job] = Start(share.job, gpus)
            elif self.patient is None:
                refused.add(like)
        return list(starts.values())


def _may_have_room(view: ClusterView) -> bool:
    """False where too few GPUs are empty for anybody who waits; where jobs share GPUs, who knows.

    It is cheaper to ask than to rank all who wait.
    """
    if len(view.queued) == 0 or view.jobs.demands is not None:
        return len(view.queued) > 0
    fewest = view.jobs.num_gpus if view.jobs.elastic is None else view.jobs.elastic.least_gpus
    empty_gpus = view.server_free[view.servers].sum()
    return bool(fewest[view.queued].min() <= empty_gpus)


def restarting(view: ClusterView) -> dict[int, Share]:
    """What those hold who have not yet made any progress since their restart."""
    idle = view.running[view.jobs.resume_s[view.running] >= view.now_s]
    return {job: Share(job, int(view.jobs.held[job])) for job in idle.tolist()}


def own_place(view: ClusterView, occupancy: Occupancy, job: int) -> IntArray | None:
    """The GPUs that a running job holds, if they are still free for it in `occupancy`."""
    if not np.any(view.running == job):
        return None
    gpus = view.gpus_of(job)
    return gpus if occupancy.fits(view, job, gpus) else None


def is_own_place(view: ClusterView, start: Start) -> bool:
    """Whether it would start a running job on the very GPUs that it holds."""
    runs = bool(np.any(view.running == start.job))
    return runs and set(start.gpus.tolist()) == set(view.gpus_of(start.job).tolist())


def stays(view: ClusterView, share: Share) -> bool:
    """Whether a running job already has its share."""
    gpus = view.gpus_of(share.job)
    if len(gpus) != share.gpus:
        return False
    types = view.topology.server_gpu_type[view.topology.gpu_server[gpus]]
    return share.gpu_type is None or bool((types == share.gpu_type).all())
