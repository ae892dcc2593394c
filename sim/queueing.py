"""Queue schedulers: an order, a placer and a sharing rule walk the queue together."""

from abc import ABC
from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.demands_room import ask_of
from sim.occupancy import Occupancy
from sim.protocols import PatientPlacer, Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView, JobColumns

PAIR = 2  # tenants


def own_code(part: object) -> int | None:
    """A class's `engine_code`, not that of a parent class."""
    code: int | None = type(part).__dict__.get("engine_code")
    return code


class QueueScheduler(ABC):
    """Starts waiting jobs in the order that the subclass gives; never preempts.

    With `skip_blocked` a job that cannot be placed lets the ones behind it try; without it, it
    blocks the queue.
    """

    order_name: str
    order_needs: Signal

    def __init__(self, *, placer: Placer, sharing: Sharing, skip_blocked: bool) -> None:
        """Compose an order with a placement and a sharing rule."""
        self.placer = placer
        self.sharing = sharing
        self.skip_blocked = skip_blocked
        self.patient = placer if isinstance(placer, PatientPlacer) else None
        self.needs = self.order_needs | placer.needs | sharing.needs
        self._rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        """`order+placer[+sharing]`."""
        parts = [self.order_name, self.placer.name]
        return "+".join(parts if self.sharing.name == "off" else [*parts, self.sharing.name])

    def reset(self, seed: int) -> None:
        """Start the placer's random stream anew."""
        self._rng = np.random.default_rng(seed)

    def keys(self, jobs: JobColumns) -> FloatArray:
        """(J,) a key for each job of the table: the least starts first, ties go to the lower row.

        The way to an own order at compiled speed: it is asked for once, before the run, and again
        when a job queues again; so it may say what is known of jobs, but not who else waits.
        """
        raise NotImplementedError(f"{type(self).__name__} needs `keys` or `order`")

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs of `view`, first to start first; ties end in the job row.

        Here by `keys`; an own order that looks at more is asked at each decision.
        """
        return view.queued[np.argsort(self.keys(view.jobs)[view.queued], kind="stable")]

    def decide(self, view: ClusterView) -> Decision:
        """Fill the cluster in order."""
        order = self.order(view)
        starts = self.fill(view, Occupancy(view), order, self.skip_blocked)
        return Decision(starts=tuple(starts), wake_s=self.asked_again_s(view, starts, ()))

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """The earlier of `wake_s` and the placer's own times, if jobs wait after these orders."""
        started = {start.job for start in starts}
        waiting = [job for job in (*view.queued.tolist(), *preempts) if job not in started]
        if not waiting:
            return None
        times = [self.wake_s(view, starts)]
        if self.patient is not None:
            times += [self.patient.wake_s(view, job) for job in waiting]
        return min((time for time in times if time is not None), default=None)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """When to be asked even if nothing happens, given that jobs wait beside those it starts.

        None here: nothing but arrivals and finishes matters.
        """
        del view, starts
        return None

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start what fits, in order, booking it in `occupancy`."""
        starts: list[Start] = []
        if skip_blocked:
            room = occupancy.most_room(view, self.sharing.name != "off")
            order = order[view.jobs.num_gpus[order] <= room]
        # Usable GPUs only shrink while we start jobs, so the like of a refused job would fail too;
        # not with three tenants, where a newcomer can make a GPU's combined speed worth joining.
        # Nor where the placer looks at more than the gang.
        may_refuse = self.patient is None and (
            self.sharing.name == "off" or view.tenant.shape[1] <= PAIR
        )
        refused: set[tuple[int, ...]] = set()
        for job in order.tolist():
            like = self.kind_of(view, job)
            if like in refused:
                continue
            gpus = self.sharing.place(view, occupancy, job, self.placer, self._rng)
            if gpus is not None:
                occupancy.take(job, gpus)
                starts.append(Start(job, gpus))
                continue
            if not skip_blocked:
                break
            if may_refuse:
                refused.add(like)
        return starts

    def kind_of(self, view: ClusterView, job: int) -> tuple[int, ...]:
        """Jobs of one kind can be placed alike: same gang, demands and, where shared, profile."""
        profile = int(view.jobs.profile[job]) if Signal.PROFILE in self.sharing.needs else -1
        return int(view.jobs.num_gpus[job]), profile, *ask_of(view.jobs.demands, job)
