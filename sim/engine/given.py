"""What schedulers, orders and their parts of one's own give: checked, and refused in words."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Forward, Start
from sim.errors import GpuYardError, InvalidDecision
from sim.view import Signal

FIXES = {  # what a class has to have -> how to write it
    "order_name": 'order_name = "mine"',
    "order_needs": "order_needs = Signal.NONE (from sim.view)",
    "name": 'name = "mine"',
    "needs": "needs = Signal.NONE (from sim.view)",
    "shares": "shares = False",
}
KINDS: dict[str, type] = {"name": str, "needs": Signal, "order_name": str, "order_needs": Signal}
MOST_SHOWN = 60  # characters of a value


def called(part: object) -> str:
    """The class of an object, with its module; or what it stands for, as it says."""
    return str(getattr(part, "called", f"{type(part).__module__}.{type(part).__qualname__}"))


OTHERWISE = {  # what an order may have instead of `keys`
    "order": "order(self, view), the jobs of view.queued, first to start first",
    "priority": "priority(self, view, jobs), one for each of these jobs as of now",
}


def no_order(owner: object, other: str) -> GpuYardError:
    """The error for an order that says in neither way who comes first; `other` of OTHERWISE."""
    return GpuYardError(
        f"{called(owner)} has neither `keys` nor `{other}`; give it keys(self, jobs), one number "
        f"for each job, the least to start first, or {OTHERWISE[other]}"
    )


def attribute(owner: object, name: str) -> Any:
    """An attribute of this kind that the class has to have; GpuYardError, with the fix."""
    missing = object()
    value = getattr(owner, name, missing)
    if value is missing:
        raise GpuYardError(f"{called(owner)} has no `{name}`; add {FIXES[name]} to the class")
    if name in KINDS and not isinstance(value, KINDS[name]):
        raise GpuYardError(f"{called(owner)}.{name} is {_shown(value)}; write {FIXES[name]}")
    return value


def check_part(part: object, role: str, *names: str) -> None:
    """Raise a GpuYardError for what is no placer or sharing rule: it lacks `place` or a name."""
    if not callable(getattr(part, "place", None)):
        raise GpuYardError(
            f"{role} is {_shown(part)} ({called(part)}), which has no method `place`; name one of "
            f"conf/{role}, or see `{role.capitalize()}` in sim/protocols.py"
        )
    for name in names:
        attribute(part, name)


def numbers(owner: object, method: str, given: object, count: int) -> FloatArray:
    """(count,) the numbers that a method gives, one a job; GpuYardError if it gives others."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = None
    if found is not None and found.shape == (count,) and not np.isnan(found).any():
        return found
    if found is None or given is None or found.ndim == 0:
        words = _shown(given)
    else:
        words = f"{found.shape} numbers, {int(np.isnan(found).sum())} of them NaN"
    raise GpuYardError(
        f"{called(owner)}.{method} gives {words}; it must give one number for each of the {count} "
        "jobs it is given, as an array"
    )


def rows(owner: object, given: object) -> IntArray:
    """(N,) the job rows that `order` gives; GpuYardError if it gives something else."""
    if not _are_whole(given):
        raise GpuYardError(
            f"{called(owner)}.order gives {_shown(given)}; it must give the jobs of view.queued, "
            "first to start first, as an array of whole numbers"
        )
    return np.ascontiguousarray(given, dtype=np.int64)


LISTED, WHOLE = (tuple, list), (int, np.integer)
ORDERS: tuple[tuple[str, tuple[type, ...], str], ...] = (  # of a decision, and what they must be
    ("starts", (Start,), "Start, like (Start(job, gpus),)"),
    ("preempts", WHOLE, "rows of jobs, whole numbers, like (job,)"),
    ("forwards", (Forward,), "Forward, like (Forward(job, partition),)"),
)


def check_decision(owner: object, given: object) -> None:
    """Refuse what is no decision, or holds what would be read as another.

    Args:
        owner: the scheduler that gives it; None: nobody knows.
        given: what it gives; whether jobs and GPUs are there, and free, is not looked at.

    Raises:
        InvalidDecision: names class, value and what it must be.
    """
    for fault in _faults(given):
        who = "a decision" if owner is None else f"{called(owner)}.decide"
        raise InvalidDecision(f"{who} gives {fault}")


def _faults(given: object) -> Iterator[str]:
    """What of a decision is none, and what it must be; not to be asked on after the first."""
    if not isinstance(given, Decision):
        yield f"{_shown(given)}; it must be a Decision, or WAIT to let time pass (sim.decision)"
        return
    for name, of, what in ORDERS:
        orders = getattr(given, name)
        if not isinstance(orders, LISTED):
            yield f"{name}={_shown(orders)}; it must be a tuple of {what}"
        for each in orders:
            if not (is_whole(each) if of is WHOLE else isinstance(each, of)):
                yield f"{_shown(each)} in {name}; it must be a tuple of {what}"
    for start in given.starts:
        yield from _faults_of_start(start)
    for each in given.forwards:
        if not (is_whole(each.job) and is_whole(each.partition)):
            yield f"{_shown(each)}; its job, a row, and its partition must be whole numbers"
    yield from _faults_of_asking(given)


def _faults_of_asking(given: Decision) -> Iterator[str]:
    if not _is_time(given.wake_s):
        yield f"wake_s={_shown(given.wake_s)}; it must be a time in seconds, or None"
    if not isinstance(given.again, bool | np.bool_):
        yield f"again={_shown(given.again)}; it must be True or False"


def _faults_of_start(start: Start) -> Iterator[str]:
    if not is_whole(start.job):
        yield f"a start of job {_shown(start.job)}; it must be a row of a job, a whole number"
    if not _are_whole(start.gpus):
        yield (
            f"a start of job row {start.job} on gpus {_shown(start.gpus)}; they must be an array "
            "of whole numbers, like np.array([0, 1])"
        )
    if not _is_time(start.lease_s):
        yield (
            f"a start of job row {start.job} with lease_s={_shown(start.lease_s)}; it must be a "
            "number of seconds, or None"
        )


def is_whole(value: object) -> bool:
    """Whether it is a whole number of 64 bits, and no truth."""
    return isinstance(value, WHOLE) and type(value) is not bool and abs(int(value)) < 2**63


def _are_whole(given: object) -> bool:
    """Whether it is a list of whole numbers; an empty one may be of any kind."""
    try:
        found = np.asarray(given)
    except ValueError:  # lists in a list
        return False
    return found.ndim == 1 and (found.dtype.kind in "iu" or len(found) == 0)


def _is_time(value: object) -> bool:
    if value is None or is_whole(value):
        return True
    return isinstance(value, (float, np.floating)) and not math.isnan(value)


def check_scheduler(given: object) -> None:
    """Refuse by a GpuYardError what is no scheduler: a method is missing, or name or needs."""
    for name, fix in (("decide", "decide(self, view)"), ("reset", "reset(self, seed)")):
        if not callable(getattr(given, name, None)):
            raise GpuYardError(
                f"{called(given)} has no method `{name}`; add {fix} to the class, see `Scheduler` "
                "in sim/protocols.py"
            )
    attribute(given, "name")
    attribute(given, "needs")


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
