"""What orders, placers and sharing rules of one's own give: checked, and refused in words."""

from typing import Any

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError
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
    """An attribute that the class has to have.

    Raises:
        GpuYardError: it has none, or one of another kind; names class, attribute and fix.
    """
    missing = object()
    value = getattr(owner, name, missing)
    if value is missing:
        raise GpuYardError(f"{called(owner)} has no `{name}`; add {FIXES[name]} to the class")
    if name in KINDS and not isinstance(value, KINDS[name]):
        raise GpuYardError(f"{called(owner)}.{name} is {_shown(value)}; write {FIXES[name]}")
    return value


def check_part(part: object, role: str, *names: str) -> None:
    """Refuse what is no placer or sharing rule: it has no `place`, or lacks one of `names`.

    Raises:
        GpuYardError: naming what was given, and the fix.
    """
    if not callable(getattr(part, "place", None)):
        raise GpuYardError(
            f"{role} is {_shown(part)} ({called(part)}), which has no method `place`; name one of "
            f"conf/{role}, or see `{role.capitalize()}` in sim/protocols.py"
        )
    for name in names:
        attribute(part, name)


def numbers(owner: object, method: str, given: object, count: int) -> FloatArray:
    """(count,) the numbers that a method gives, one a job.

    Raises:
        GpuYardError: it gives something else; names class, method and what it has to give.
    """
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = None
    if found is not None and found.shape == (count,) and not np.isnan(found).any():
        return found
    if found is None or given is None or found.ndim == 0:
        told = _shown(given)
    else:
        told = f"{found.shape} numbers, {int(np.isnan(found).sum())} of them NaN"
    raise GpuYardError(
        f"{called(owner)}.{method} gives {told}; it must give one number for each of the {count} "
        "jobs it is given, as an array"
    )


def check_stay(owner: object, before: FloatArray, later: FloatArray) -> None:
    """Refuse keys by which running jobs are preempted and that change as a job gets on.

    Raises:
        GpuYardError: naming class, job and fix.
    """
    changed = np.flatnonzero(before != later)
    if len(changed) > 0:
        job = int(changed[0])
        raise GpuYardError(
            f"{called(owner)}.keys of job row {job} is {before[job]:g} at first and {later[job]:g} "
            "once it has run, and running jobs are preempted by it: give it "
            "priority(self, view, jobs) instead, which is asked at each decision"
        )


def rows(owner: object, given: object) -> IntArray:
    """(N,) the job rows that `order` gives.

    Raises:
        GpuYardError: it gives something else; names class, method and what it has to give.
    """
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise GpuYardError(
            f"{called(owner)}.order gives {_shown(given)}; it must give the jobs of view.queued, "
            "first to start first, as an array"
        )
    return np.ascontiguousarray(found, dtype=np.int64)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
