"""Checks of single options of a workload; None means that an option is not used."""

import math
from collections.abc import Sequence

from sim.errors import TraceError
from sim.traces.text_table import nearest


def check_count(key: str, value: object) -> None:
    """Raise a TraceError unless `value` is None or a whole number of 1 or more."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(
            f"workload.{key} is {value!r}; it must be null or a whole number, 1 or more"
        )


def check_number(
    key: str, value: object, *, above_zero: bool = False, group: str = "workload"
) -> None:
    """Raise a TraceError unless `value` is None or a finite number, 0 or more (or above 0)."""
    if value is None:
        return
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(value, int | float) and good and (value > 0 or (value == 0 and not above_zero)):
        return
    rule = "above 0" if above_zero else "0 or more"
    raise TraceError(f"{group}.{key} is {value!r}; it must be null or a finite number, {rule}")


def check_choice(key: str, value: object, known: Sequence[str]) -> None:
    """Raise a TraceError unless `value` is one of the words `known`."""
    if value not in known:
        raise TraceError(
            f"workload.{key} is {value!r}{nearest(str(value), known)}; known are {', '.join(known)}"
        )
