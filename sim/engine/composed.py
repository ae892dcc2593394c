"""Queue schedulers as compositions: an order, a placer, a sharing rule, one a partition or one.

What they decide is the engine's: `sim.engine.loop` plays whole runs, `sim.engine.trial` one
decision for whoever asks. Compiled code goes by RULE, the composition in numbers.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim import codes
from sim.arrays import FloatArray, IntArray, RowArray
from sim.decision import Decision, Start
from sim.engine.given import attribute, check_part, no_order, numbers
from sim.engine.rule import PAIR, Filling, make_rule, own_code
from sim.engine.trial import Trial
from sim.jobs import ask_of
from sim.kernel.layout import State
from sim.protocols import Forwarding, PatientPlacer, Placer, Scheduler, Sharing
from sim.view import ClusterView, JobColumns, Signal


def still_waiting(view: ClusterView, starts: list[Start], preempts: Sequence[int]) -> list[int]:
    """Who waits after these orders."""
    started = {start.job for start in starts}
    return [job for job in (*view.queued.tolist(), *preempts) if job not in started]


def next_s(now_s: float, times_s: FloatArray) -> float | None:
    """The least of these times, None if there is none; see `later_s`."""
    return later_s(now_s, float(times_s.min(initial=np.inf)))


def later_s(now_s: float, time_s: float) -> float | None:
    """`time_s`, None if it is infinite; the next instant where it is not later.

    That is where a wait is below the clock's grain.
    """
    return None if time_s == math.inf else max(time_s, math.nextafter(now_s, math.inf))


class Composed(ABC):
    """Decides by the engine, on a copy of the state as the view shows it."""

    needs: Signal
    rng: np.random.Generator
    forwarding: Forwarding | None = None
    router_seed = 0
    _trial: Trial | None = None

    @property
    @abstractmethod
    def child(self) -> "QueueScheduler":
        """What serves each partition."""

    def decide(self, view: ClusterView) -> Decision:
        """The orders of this instant."""
        return self.orders(view)

    def orders(self, view: ClusterView) -> Decision:
        """What the engine decides; nothing of the run changes."""
        if self._trial is None or not self._trial.is_of(view):
            self._trial = Trial(self, view)
        return self._trial.decide(view)

    def __getstate__(self) -> dict[str, Any]:
        """Without the copy, which is good for one run in one process."""
        return {name: value for name, value in vars(self).items() if name != "_trial"}


class QueueScheduler(Composed):
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
        check_part(placer, "placer", "name", "needs")
        check_part(sharing, "sharing", "name", "needs", "shares")
        self.needs = attribute(self, "order_needs") | placer.needs | sharing.needs
        self.rng = np.random.default_rng(0)

    @property
    def child(self) -> "QueueScheduler":
        """Itself: it has one queue."""
        return self

    @property
    def name(self) -> str:
        """`order+placer[+sharing]`."""
        parts = [str(attribute(self, "order_name")), self.placer.name]
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
        del jobs
        raise no_order(self, "priority" if self.preempts else "order")

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs of `view`, first to start first; ties end in the job row.

        Here by `keys`; an own order that looks at more is asked at each decision.
        """
        keys = numbers(self, "keys", self.keys(view.jobs), len(view.jobs.num_gpus))
        return view.queued[np.argsort(keys[view.queued], kind="stable")]

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """The earlier of `wake_s` and the placer's own times, if jobs wait after these orders."""
        if len(view.queued) + len(preempts) <= len(starts):
            return None
        times = [self.wake_s(view, starts)]
        if self.patient is not None:
            waiting = still_waiting(view, starts, preempts)
            times += [self.patient.wake_s(view, job) for job in waiting]
        return min((time for time in times if time is not None), default=None)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """When to be asked even if nothing happens, given that jobs wait beside those it starts.

        None here: nothing but arrivals and finishes matters.
        """
        del view, starts
        return None

    @property
    def has_times(self) -> bool:
        """Whether Python says when it is to be asked again."""
        own = not _inherits(self, QueueScheduler, "wake_s", "asked_again_s")
        return own or (self.patient is not None and own_code(self.placer) is None)

    @property
    def by_priority(self) -> bool:
        """Whether who waits is put in order by what ranks running jobs, too."""
        return False

    def may_refuse(self, most_tenants: int) -> bool:
        """Whether who finds no place says that his like would find none, either.

        Usable GPUs only shrink while jobs start; not with three tenants, where a newcomer can make
        a GPU's combined speed worth joining, nor where the placer looks at more than the gang.
        """
        return self.patient is None and (not self.sharing.shares or most_tenants <= PAIR)

    def class_of(self, view: ClusterView, job: int) -> tuple[int, ...]:
        """Jobs of one class can be placed alike: same gang, demands and, where shared, profile."""
        profile = int(view.jobs.profile[job]) if Signal.PROFILE in self.sharing.needs else -1
        return int(view.jobs.num_gpus[job]), profile, *ask_of(view.jobs.demands, job)


class ByArrival(QueueScheduler):
    """First submitted first."""

    order_needs = Signal.NONE

    def order(self, view: ClusterView) -> IntArray:
        """The queue as it stands."""
        return view.queued


class ByTimeLeft(QueueScheduler):
    """Least predicted work first."""

    order_needs = Signal.PREDICTION

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, shortest predicted work left first."""
        left_s = view.jobs.predicted_remaining_s[view.queued]
        return view.queued[np.argsort(left_s, kind="stable")]


class ByWorkLeft(QueueScheduler):
    """Least predicted service first."""

    order_needs = Signal.PREDICTION

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, fewest predicted GPU-seconds left first."""
        work_gpu_s = view.jobs.predicted_remaining_s[view.queued] * view.jobs.num_gpus[view.queued]
        return view.queued[np.argsort(work_gpu_s, kind="stable")]


class PreemptiveScheduler(QueueScheduler):
    """Jobs in priority order; each may preempt running jobs of strictly lower priority.

    A job first tries what is free. If that fails, the fewest running jobs are set aside, lowest
    priority first, that let it in; those whose GPUs it then does not use go on undisturbed. A job
    that cannot be placed even so preempts nobody. A preempted job queues again at its priority
    and may move to other GPUs in the same decision. Where jobs share GPUs one victim more may take
    room away: then a job for which all victims are too many preempts nobody, and bisection finds
    how many are enough, not always the fewest.
    """

    preempts = True

    def __init__(self, *, placer: Placer, sharing: Sharing) -> None:
        """Compose a priority with a placement and a sharing rule."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=True)

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) key of waiting or running jobs; smaller runs first, ties by job row.

        Here by `keys`, which then must stay as a job gets on, or change by arithmetic on columns
        (`sim.engine.arithmetic`): they are asked for before the run, which stays compiled.
        So it is with an own priority that is such arithmetic; any other is asked at each decision.
        """
        given = self.keys(view.jobs)
        return numbers(self, "keys", given, len(view.jobs.num_gpus))[jobs]

    @property
    def by_priority(self) -> bool:
        """Whether `order` is that of `priority`."""
        return type(self).order is PreemptiveScheduler.order

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by priority, then by submission."""
        keys = numbers(self, "priority", self.priority(view, view.queued), len(view.queued))
        return view.queued[np.argsort(keys, kind="stable")]


class PartitionedScheduler(Composed):
    """Routes arrivals, lets each partition's scheduler decide for itself, then steals if allowed.

    The fair opponent of the learned agents: every partition sees its own queue, servers and
    running jobs only. Stealing goes through partitions in order of index; each takes what its own
    rule would start of the others' queues, blocked jobs skipped; nobody takes a job in the decision
    that preempted it.
    """

    forwarding: Forwarding

    def __init__(self, *, child: QueueScheduler, forwarding: Forwarding) -> None:
        """`child` serves every partition in turn: it keeps nothing between decisions."""
        self._child = child
        self.forwarding = forwarding
        self.needs = child.needs
        self.rng = np.random.default_rng(0)

    @property
    def child(self) -> QueueScheduler:
        """What serves each partition."""
        return self._child

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


BY_VIEW = ("order", "priority")  # ways to say who comes first that are asked at each decision
OWN_RULES = ("decide", "orders", "class_of", "asked_again_s", "wake_s")


def rule_of(scheduler: Scheduler, state: State) -> RowArray | str:
    """RULE of a scheduler whose whole run the engine can play, else why Python has to be asked."""
    if not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        return f"{scheduler.name} has rounds or placements of its own"
    child, forwarding = scheduler.child, scheduler.forwarding
    for part in (forwarding, child.placer, child.sharing):
        if part is not None and not getattr(part, "steals", False) and own_code(part) is None:
            return f"{type(part).__name__} is Python"
    order = _order_of(child)
    if isinstance(order, str):
        return order
    return make_rule(scheduler, order, state)


def _order_of(child: QueueScheduler) -> int | str:
    """Its code; for an own order FIXED or ASKED, and for one that decides otherwise why not."""
    code = own_code(child)
    if code is not None:
        return code
    if isinstance(child, Filling):
        return f"{type(child).__name__} has a `fill` of its own"
    base = PreemptiveScheduler if isinstance(child, PreemptiveScheduler) else QueueScheduler
    for name in OWN_RULES:
        if getattr(type(child), name) is not getattr(base, name):
            return f"{type(child).__name__} has a `{name}` of its own"
    has_keys = not _inherits(child, QueueScheduler, "keys")
    return codes.FIXED if has_keys and _inherits(child, base, *BY_VIEW) else codes.ASKED


def _inherits(child: QueueScheduler, base: type[QueueScheduler], *names: str) -> bool:
    """Whether these methods, where `base` has them, are those of `base`."""
    own = vars(QueueScheduler) | vars(base)
    return all(getattr(type(child), name) is own[name] for name in names if name in own)
