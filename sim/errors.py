"""Every error a user can cause, one class a kind; messages name place, value and fix."""

import difflib
from collections.abc import Iterable


class GpuYardError(Exception):
    """Base of all errors that GPUYard raises on purpose."""


class TraceError(GpuYardError):
    """A trace row, column or job cannot be used; the message names file, line, column and value."""


class TopologyError(GpuYardError):
    """A topology or its division into partitions is impossible."""


class PhysicsError(GpuYardError):
    """A profile catalogue, pair table or network table is inconsistent."""


class InvalidDecision(GpuYardError):
    """A scheduler decided something illegal; the message names job, GPU, holder and time."""


class SignalError(GpuYardError):
    """A scheduler read a column that its `needs` did not ask for, or that the run cannot grant."""


class SimulationError(GpuYardError):
    """The run cannot go on (for example: every event is over and jobs still wait)."""


class EndlessRun(SimulationError):
    """Jobs start and stop for ever, and none of them ends."""


def nearest(name: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def check_keys(
    given: Iterable[object], known: Iterable[str], at: str, error: type[GpuYardError]
) -> None:
    """Raise `error` if one of the keys given under `at`, as `workload.columns`, is not known."""
    names = tuple(known)
    for key in given:
        if key not in names:
            raise error(f"{at}.{key} is not a key{nearest(key, names)}; keys: {', '.join(names)}")
