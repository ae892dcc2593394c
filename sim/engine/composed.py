"""Queue schedulers as compositions: an order, a placer, a sharing rule, one a partition or one.

What they decide is the engine's: `sim.engine.loop` plays whole runs, `sim.engine.trial` one
decision for whoever asks. Compiled code goes by RULE, the composition in numbers.
"""

import math
from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from sim import codes
from sim.arrays import FloatArray, IntArray, RowArray
from sim.codes import NEVER, OWN_ONLY
from sim.decision import Decision, Start
from sim.engine.given import attribute, check_part, no_order, numbers
from sim.engine.layout import RULE
from sim.engine.occupancy import Occupancy
from sim.jobs import ask_of
from sim.kernel.layout import State
from sim.protocols import Forwarding, PatientPlacer, Placer, Scheduler, Sharing
from sim.view import ClusterView, JobColumns, Signal

if TYPE_CHECKING:
    from sim.engine.trial import Trial


PAIR = 2  # tenants


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
        check_part(placer, "placer", "name", "needs")
        check_part(sharing, "sharing", "name", "needs", "shares")
        self.needs = attribute(self, "order_needs") | placer.needs | sharing.needs
        self.rng = np.random.default_rng(0)

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

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) key of waiting or running jobs; smaller runs first, ties by job row.

        Here by `keys`, which then must stay as a job gets on, or change by arithmetic on columns
        (`sim.engine.arithmetic`): they are asked for before the run, which stays compiled.
        So it is with an own priority that is such arithmetic; any other is asked at each decision.
        """
        given = self.keys(view.jobs)
        return numbers(self, "keys", given, len(view.jobs.num_gpus))[jobs]

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by priority, then by submission."""
        keys = numbers(self, "priority", self.priority(view, view.queued), len(view.queued))
        return view.queued[np.argsort(keys, kind="stable")]


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


MONOTONE = (*codes.NEVER_WAIT, codes.CONSOLIDATED)  # one GPU more never takes a place away
JUDGES_JOB = (codes.DELAY,)
BY_VIEW = ("order", "priority")  # ways to say who comes first that are asked at each decision
OWN_RULES = ("decide", "orders", "class_of", "asked_again_s", "wake_s")


def rule_of(scheduler: Scheduler, state: State) -> RowArray | str:
    """RULE of a scheduler whose whole run the engine can play, else why Python has to be asked."""
    if not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        return f"{scheduler.name} has rounds or placements of its own"
    child = child_of(scheduler)
    forwarding = scheduler.forwarding if isinstance(scheduler, PartitionedScheduler) else None
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


def make_rule(scheduler: Composed, order: int, state: State) -> RowArray:
    """RULE of a scheduler, parts in Python included."""
    child, forwarding = child_of(scheduler), OWN_ONLY
    if isinstance(scheduler, PartitionedScheduler):
        steals = scheduler.forwarding.steals
        forwarding = codes.STEAL if steals else _code_of(scheduler.forwarding)
    rule = np.zeros(1, dtype=RULE)
    for key, value in {
        "order": order,
        "placer": _code_of(child.placer),
        "sharing": _code_of(child.sharing),
        "forwarding": forwarding,
        "preempts": child.preempts,
        "skip_blocked": child.skip_blocked,
        "least_speed": getattr(child.sharing, "least_speed", 0.0),
        "most_slowdown": getattr(child.placer, "most_slowdown", 1.0),
        "rack_wait_s": getattr(child.placer, "rack_wait_s", 0.0),
        "anywhere_wait_s": getattr(child.placer, "anywhere_wait_s", 0.0),
        "quantum_gpu_s": getattr(child, "quantum_gpu_s", np.nan),
        "kappa": getattr(child.placer, "kappa", 0),
    }.items():
        rule[key] = value
    _complete(rule, child, state)
    return rule


def _code_of(part: Placer | Sharing | Forwarding) -> int:
    code = own_code(part)
    return codes.IN_PYTHON if code is None else code


def _complete(rule: RowArray, child: QueueScheduler, state: State) -> None:
    """Write what follows from the rule."""
    placer, sharing = rule["placer"][0], rule["sharing"][0]
    pairwise = sharing == NEVER or rule["least_speed"][0] <= 0 or state.tenant.shape[1] <= PAIR
    if codes.IN_PYTHON in (placer, sharing):  # nobody knows what a shared GPU is worth to it
        pairwise = not child.sharing.shares or state.tenant.shape[1] <= PAIR
    patient = placer == codes.IN_PYTHON and child.patient is not None
    looks_around = patient or placer in (codes.COMPACT_WAIT, codes.DELAY)
    rule["shrinks"] = pairwise and not looks_around
    rule["monotone"] = rule["shrinks"][0] and placer in MONOTONE and sharing != codes.IN_PYTHON
    size = state.server["last_gpu"] - state.server["first_gpu"]
    even = placer == codes.CONSOLIDATED and size.min() == size.max() and _all_whole(state)
    rule["by_size"] = rule["shrinks"][0] and (placer in codes.NEVER_WAIT or even)
    rule["judges_job"] = patient or placer in JUDGES_JOB
    # A start may make room for who was passed, who is not looked at again: so lists, not heaps.
    waits_by_list = rule["order"][0] in (codes.TETRIS, codes.ASKED)
    rule["listed"] = waits_by_list or not (rule["shrinks"][0] or rule["preempts"][0])


def _all_whole(state: State) -> bool:
    """Whether no job asks for more or less than empty GPUs."""
    return not state.world[0]["demands_matter"]
