"""The unit in which people read a time: chosen once a table or an axis."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TimeUnit:
    """A unit and its length."""

    name: str
    length_s: float


SECONDS = TimeUnit("s", 1.0)
MINUTES = TimeUnit("min", 60.0)
HOURS = TimeUnit("h", 3600.0)
DAYS = TimeUnit("d", 86400.0)
_ENOUGH = 2.0  # a unit serves if the typical value is at least this many of it


def unit_for(values_s: Iterable[float]) -> TimeUnit:
    """The largest unit up to hours of which the median value is at least two."""
    known = [value for value in values_s if not np.isnan(value)]
    typical_s = float(np.median(known)) if known else 0.0
    fits = [unit for unit in (HOURS, MINUTES) if typical_s >= _ENOUGH * unit.length_s]
    return fits[0] if fits else SECONDS


def axis_unit_for(length_s: float) -> TimeUnit:
    """The unit of a time axis of this length: days from four days on."""
    if length_s >= 2 * _ENOUGH * DAYS.length_s:
        return DAYS
    return unit_for([length_s])
