"""What a result belongs to: scheduler, setting and information, as in `comparison.csv`."""

from dataclasses import asdict, dataclass, fields

from sim.report.errors import ReportError

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
