"""Queue schedulers as compositions: an order, a placer, a sharing rule, one a partition or one.

What they decide is the engine's: `sim.engine.loop` plays whole runs, `sim.engine.trial` one
decision for whoever asks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import Occupancy
from sim.jobs import ask_of
from sim.protocols import Forwarding, PatientPlacer, Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView, JobColumns

if TYPE_CHECKING:
    from sim.engine.trial import Trial

PAIR = 2  # tenants


def own_code(part: object) -> int | None:
    """A class's `engine_code`, not that of a parent class."""
    code: int | None = type(part).__dict__.get("engine_code")
    return code


class Composed:
    """Decides by the engine, on a copy of the state as the view shows it."""

    needs: Signal
    _trial: "Trial | None" = None

    def decide(self, view: ClusterView) -> Decision:
        """The orders of this instant."""
        return self.orders(view)

    def orders(self, view: ClusterView) -> Decision:
        """What the engine decides; nothing of the run changes."""
        from sim.engine.trial import Trial

        if self._trial is None or not self._trial.is_of(view):
            self._trial = Trial(self, view)
        return self._trial.decide(view)

    def __getstate__(self) -> dict[str, Any]:
        """Without the copy, which is good for one run in one process."""
        return {name: value for name, value in vars(self).items() if name != "_trial"}


class QueueScheduler(Composed, ABC):
    """Starts waiting jobs in the order that the subclass gives; never preempts.

    With `skip_blocked` a job that cannot be placed lets the ones behind it try; without it, it
    blocks the queue.
    """

    order_name: str
    order_needs: Signal
    preempts = False

    def __init__(self, *, placer: Placer, sharing: Sharing, skip_blocked: bool) -> None:
        """Compose an order with a placement and a sharing rule."""
        self.placer = placer
        self.sharing = sharing
        self.skip_blocked = skip_blocked
        self.patient = placer if isinstance(placer, PatientPlacer) else None
        self.needs = self.order_needs | placer.needs | sharing.needs
        self.rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        """`order+placer[+sharing]`."""
        parts = [self.order_name, self.placer.name]
        return "+".join([*parts, self.sharing.name] if self.sharing.shares else parts)

    def reset(self, seed: int) -> None:
        """Start the placer's random stream anew."""
        self.rng = np.random.default_rng(seed)
        self._trial = None

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

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """The earlier of `wake_s` and the placer's own times, if jobs wait after these orders."""
        if len(view.queued) + len(preempts) <= len(starts):
            return None
        times = [self.wake_s(view, starts)]
        if self.patient is not None:
            started = {start.job for start in starts}
            waiting = [job for job in (*view.queued.tolist(), *preempts) if job not in started]
            times += [self.patient.wake_s(view, job) for job in waiting]
        return min((time for time in times if time is not None), default=None)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """When to be asked even if nothing happens, given that jobs wait beside those it starts.

        None here: nothing but arrivals and finishes matters.
        """
        del view, starts
        return None

    def may_refuse(self, most_tenants: int) -> bool:
        """Whether who finds no place says that his like would find none, either.

        Usable GPUs only shrink while jobs start; not with three tenants, where a newcomer can make
        a GPU's combined speed worth joining, nor where the placer looks at more than the gang.
        """
        return self.patient is None and (not self.sharing.shares or most_tenants <= PAIR)

    def kind_of(self, view: ClusterView, job: int) -> tuple[int, ...]:
        """Jobs of one kind can be placed alike: same gang, demands and, where shared, profile."""
        profile = int(view.jobs.profile[job]) if Signal.PROFILE in self.sharing.needs else -1
        return int(view.jobs.num_gpus[job]), profile, *ask_of(view.jobs.demands, job)


@runtime_checkable
class Filling(Protocol):
    """A queue scheduler that walks its queue itself, beyond an order that one could sort by."""

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start what fits of `order`, booking it in `occupancy`."""


class PreemptiveScheduler(QueueScheduler):
    """Jobs in priority order; each may preempt running jobs of strictly lower priority.

    A job first tries what is free. If that fails, the fewest running jobs are set aside, lowest
    priority first, that let it in; those whose GPUs it then does not use go on undisturbed. A job
    that cannot be placed even so preempts nobody. A preempted job queues again at its priority
    and may move to other GPUs in the same decision.
    """

    preempts = True

    def __init__(self, *, placer: Placer, sharing: Sharing) -> None:
        """Compose a priority with a placement and a sharing rule."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=True)

    @abstractmethod
    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) key of waiting or running jobs; smaller runs first, ties by job row."""

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by priority, then by submission."""
        return view.queued[np.argsort(self.priority(view, view.queued), kind="stable")]


class PartitionedScheduler(Composed):
    """Routes arrivals, lets each partition's scheduler decide for itself, then steals if allowed.

    The fair opponent of the learned agents: every partition sees its own queue, servers and
    running jobs only. Stealing goes through partitions in order of index; each takes what its own
    rule would start of the others' queues, blocked jobs skipped.
    """

    def __init__(self, *, child: QueueScheduler, forwarding: Forwarding) -> None:
        """`child` serves every partition in turn: it keeps nothing between decisions."""
        self.child = child
        self.forwarding = forwarding
        self.needs = child.needs
        self.router_seed = 0
        self.rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        """`order+placer[+sharing]+forwarding`."""
        return f"{self.child.name}+{self.forwarding.name}"

    def reset(self, seed: int) -> None:
        """Start all random streams anew."""
        self.router_seed, child = map(int, np.random.SeedSequence(seed).generate_state(2))
        self.rng = np.random.default_rng(self.router_seed)
        self.child.reset(child)
        self._trial = None


def child_of(scheduler: Composed) -> QueueScheduler:
    """What serves each partition."""
    child = scheduler.child if isinstance(scheduler, PartitionedScheduler) else scheduler
    assert isinstance(child, QueueScheduler)
    return child
