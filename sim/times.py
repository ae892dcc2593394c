"""Units of time, and in which of them people read one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True)
class TimeUnit:
    """A unit and its length."""

    name: str
    length_s: float


SECONDS = TimeUnit("s", 1.0)
MINUTES = TimeUnit("min", MINUTE_S)
HOURS = TimeUnit("h", HOUR_S)
DAYS = TimeUnit("d", DAY_S)
_ENOUGH = 2.0  # a unit serves if the typical value is at least this many of it


def unit_for(values_s: Iterable[float]) -> TimeUnit:
    """The largest unit up to hours of which the median value is at least two."""
    known = [value for value in values_s if not np.isnan(value)]
    typical_s = float(np.median(known)) if known else 0.0
    fits = [unit for unit in (HOURS, MINUTES) if typical_s >= _ENOUGH * unit.length_s]
    return fits[0] if fits else SECONDS


def time_text(time_s: float) -> str:
    """Three figures in the largest unit up to hours of which there is one."""
    unit = unit_for([_ENOUGH * time_s])
    return f"{time_s / unit.length_s:.3g} {unit.name}"


def axis_unit_for(length_s: float) -> TimeUnit:
    """The unit of a time axis of this length: days from four days on."""
    if length_s >= 2 * _ENOUGH * DAYS.length_s:
        return DAYS
    return unit_for([length_s])
