"""Every error a user can cause, one class a kind; messages name place, value and fix."""

import difflib
import math
import re
from collections.abc import Callable, Iterable
from numbers import Real


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


def amount(number: int, noun: str) -> str:
    """`1 agent`, `1,200 agents`, `2 stretches`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("ch") else "s")


RULES: dict[str, Callable[[float], bool]] = {  # of a number, as messages word them
    "above 0": lambda x: x > 0,
    "from -100 to below 0": lambda x: -100 <= x < 0,  # noqa: PLR2004
    "0 or more": lambda x: x >= 0,
    "0.1 or more": lambda x: x >= 0.1,  # noqa: PLR2004
    "1 or more": lambda x: x >= 1,
    "from 1 to 1000": lambda x: 1 <= x <= 1000,  # noqa: PLR2004
    "from 1e-6 to 1e12": lambda x: 1e-6 <= x <= 1e12,  # noqa: PLR2004
    "a whole number from 1": lambda x: x >= 1 and x.is_integer(),
    "2 or more": lambda x: x >= 2,  # noqa: PLR2004
    "from 0 to 1": lambda x: 0 <= x <= 1,
    "from -1 to 1": lambda x: -1 <= x <= 1,
    "from 0 to below 1": lambda x: 0 <= x < 1,
    "above 0, at most 1": lambda x: 0 < x <= 1,
}
OR_NULL = "null, or "


def check_numbers(
    at: str, rule: str, error: type[GpuYardError] = GpuYardError, /, **values: object
) -> None:
    """Refuse what is no finite number by one of `RULES`; after `OR_NULL` it may be None.

    Raises:
        GpuYardError: or `error`, naming the key under `at`, as `scheduler`, the value, the rule.
    """
    holds = RULES[rule.removeprefix(OR_NULL)]
    for key, value in values.items():
        if value is None and rule.startswith(OR_NULL):
            continue
        finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not (finite and holds(float(value))):  # type: ignore[arg-type]
            words = f"{rule}{'' if finite else ', a finite number'}"
            raise error(f"{at}{'.' if at else ''}{key} is {value!r}; it must be {words}")


def check_keys(
    given: Iterable[object], known: Iterable[str], at: str, error: type[GpuYardError]
) -> None:
    """Raise `error` if one of the keys given under `at`, as `workload.columns`, is not known."""
    names = tuple(known)
    for key in given:
        if key not in names:
            raise error(f"{at}.{key} is not a key{nearest(key, names)}; keys: {', '.join(names)}")


PLAIN_NAME = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_/][\w/.-]*", re.ASCII | re.I)


def override(key: str, value: object) -> str:
    """The word that sets `key` to a name or a path, in quotes where Hydra needs them."""
    if PLAIN_NAME.fullmatch(text := str(value)):
        return f"{key}={text}"
    # Backslashes count before a quote only, the last one included.
    escaped = re.sub(r'(\\*)("|$)', r"\1\1\2", text).replace('"', '\\"')
    return f'{key}="{escaped}"'
