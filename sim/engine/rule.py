"""What the engine asks of a composition, and RULE: a composition in numbers, for compiled code."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sim import codes
from sim.arrays import FloatArray, IntArray, RowArray
from sim.codes import NEVER, OWN_ONLY
from sim.decision import Start
from sim.engine.layout import RULE
from sim.engine.occupancy import Occupancy
from sim.kernel.layout import State
from sim.protocols import Forwarding, PatientPlacer, Placer, Sharing
from sim.view import ClusterView, JobColumns, Signal

PAIR = 2  # tenants


class Child(Protocol):
    """What serves one queue; `sim.engine.composed.QueueScheduler` says what each member is for."""

    needs: Signal
    placer: Placer
    sharing: Sharing
    patient: PatientPlacer | None
    skip_blocked: bool
    preempts: bool
    rng: np.random.Generator

    @property
    def has_times(self) -> bool:
        """Whether Python says when it is to be asked again."""

    @property
    def by_priority(self) -> bool:
        """Whether who waits is put in order by what ranks running jobs, too."""

    def keys(self, jobs: JobColumns) -> FloatArray:
        """(J,) asked for before the run."""

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, first to start first."""

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """When to be asked again."""

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """The earlier of `wake_s` and the placer's own times."""


@runtime_checkable
class Ranking(Protocol):
    """A child that ranks running jobs, too."""

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) keys; smaller runs first."""


class Composition(Protocol):
    """A child for each queue, and how queues exchange jobs."""

    rng: np.random.Generator
    router_seed: int

    @property
    def child(self) -> Child:
        """What serves each partition; a scheduler of one queue serves it itself."""

    @property
    def forwarding(self) -> Forwarding | None:
        """None: there is one queue."""


@runtime_checkable
class Filling(Protocol):
    """A queue scheduler that walks its queue itself, beyond an order that one could sort by."""

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start what fits of `order`, booking it in `occupancy`."""


def own_code(part: object) -> int | None:
    """A class's `engine_code`, not that of a parent class."""
    return type(part).__dict__.get("engine_code")


MONOTONE = (*codes.NEVER_WAIT, codes.CONSOLIDATED)  # one GPU more never takes a place away
JUDGES_JOB = (codes.DELAY,)


def make_rule(scheduler: Composition, order: int, state: State) -> RowArray:
    """RULE of a scheduler, parts in Python included."""
    child, forwarding = scheduler.child, OWN_ONLY
    if scheduler.forwarding is not None:
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


def _complete(rule: RowArray, child: Child, state: State) -> None:
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
    even = placer == codes.CONSOLIDATED and size.min() == size.max()
    even = even and not state.world[0]["demands_matter"]  # nobody asks for other than empty GPUs
    rule["by_size"] = rule["shrinks"][0] and (placer in codes.NEVER_WAIT or even)
    rule["judges_job"] = patient or placer in JUDGES_JOB
    # A start may make room for who was passed, who is not looked at again: so lists, not heaps.
    waits_by_list = rule["order"][0] in (codes.TETRIS, codes.ASKED)
    rule["listed"] = waits_by_list or not (rule["shrinks"][0] or rule["preempts"][0])
