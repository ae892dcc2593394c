"""What a result belongs to, as in `comparison.csv`, and the unit in which people read a time."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

import numpy as np

from sim.report.atomic import ReportError

ROLES = (
    "ours",
    "composite",
    "published",
    "linear_score",
    "global_queue",
    "reference",
    "ablation",
)


@dataclass(frozen=True)
class Labels:
    """Identifies one run; the fields are the first columns of `comparison.csv`, in order."""

    scheduler: str  # the whole composition, unique
    topology: str
    workload: str
    load: float | None  # offered load; None: as in the trace
    agents: int  # partitions, each with its own scheduler
    seed: int
    window: int  # which window of the workload
    information: str  # of durations: none, limit, predicted or oracle
    interference_info: str  # what the scheduler knows of co-location
    physics: str  # interference and network model that the run obeyed
    role: str  # one of `ROLES`
    stretch: int | None = None  # of the trace that the window is from; None: a random one

    def __post_init__(self) -> None:
        """Check the role."""
        if self.role not in ROLES:
            raise ReportError(
                f"scheduler {self.scheduler}: role is {self.role!r}; use one of {', '.join(ROLES)}"
            )

    @property
    def unit(self) -> tuple[int, int]:
        """(window, seed): what intervals are taken over and ratios are paired by."""
        return self.window, self.seed

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Column -> value, in the order of the columns."""
        return asdict(self)


LABEL_COLUMNS = tuple(field.name for field in fields(Labels))
LATER_COLUMNS = ("stretch",)  # files of earlier versions lack them
_INTEGERS = ("agents", "seed", "window")


def labels_from_text(cells: dict[str, str]) -> Labels:
    """Labels from text cells (column -> text), as read from a CSV file.

    Raises:
        ReportError: a number does not parse, or the role is unknown.
    """
    numbers = (*_INTEGERS, "load", "stretch")
    texts = {name: cells[name] for name in LABEL_COLUMNS if name not in numbers}
    whole = {name: _integer(name, cells[name]) for name in _INTEGERS}
    stretch = cells.get("stretch", "")
    return Labels(
        **texts,  # type: ignore[arg-type]
        **whole,  # type: ignore[arg-type]
        load=_load(cells["load"]),
        stretch=_integer("stretch", stretch) if stretch else None,
    )


def _integer(column: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ReportError(f"column {column} is {text!r}; it must be a whole number") from None


def _load(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ReportError(f"column load is {text!r}; it must be a number or empty") from None


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
