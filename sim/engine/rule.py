"""Which rule a scheduler follows, in the numbers that compiled code goes by."""

import numpy as np

from sim import codes
from sim.arrays import RowArray
from sim.codes import NEVER, OWN_ONLY
from sim.engine.composed import (
    PAIR,
    Composed,
    Filling,
    PartitionedScheduler,
    PreemptiveScheduler,
    QueueScheduler,
    child_of,
    own_code,
)
from sim.engine.layout import RULE
from sim.kernel.layout import State
from sim.protocols import Forwarding, Placer, Scheduler, Sharing

MONOTONE = (*codes.NEVER_WAIT, codes.CONSOLIDATED)  # one GPU more never takes a place away
JUDGES_JOB = (codes.DELAY,)
OWN_RULES = ("decide", "orders", "kind_of", "asked_again_s", "wake_s")


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
    if getattr(type(child), "keys") is not QueueScheduler.keys:  # noqa: B009 - the function itself
        return codes.FIXED
    return codes.ASKED


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
