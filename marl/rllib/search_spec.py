"""What a hyper-parameter search is told, as plain values. Importing this loads no Ray."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.errors import GpuYardError

# type -> what it needs beside its key
TYPES = {
    "grid": ("values",),
    "choice": ("values",),
    "uniform": ("low", "high"),
    "loguniform": ("low", "high"),
    "randint": ("low", "high"),
}


class SearchError(GpuYardError):
    """A search cannot be made as configured; the message names key, value and fix."""


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """A space of dotted keys, and how many of its points are tried for how long."""

    space: list[Any]  # {key, type, values} or {key, type, low, high} each
    samples: int
    max_concurrent: int | None  # trials at once; None: as many as Ray has CPUs for
    grace_iterations: int | None  # nobody is stopped before; None: nobody is stopped early
    reduction_factor: int  # one in so many goes on

    def __post_init__(self) -> None:
        """Check the space and the numbers.

        Raises:
            SearchError: naming the entry or number.
        """
        if not self.space:
            raise SearchError("tune.space is empty; give it at least one {key, type, ...}")
        for place, entry in enumerate(self.space):
            _check(f"tune.space[{place}]", entry)
        least = {"samples": 1, "max_concurrent": 1, "grace_iterations": 1, "reduction_factor": 2}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise SearchError(f"tune.{name} is {value!r}; it must be at least {lowest}")

    @property
    def keys(self) -> list[str]:
        """Dotted keys that the search sets."""
        return [str(entry["key"]) for entry in self.space]


def _check(place: str, entry: object) -> None:
    """Raise SearchError if an entry of the space is not complete."""
    if not isinstance(entry, Mapping) or "key" not in entry or entry.get("type") not in TYPES:
        raise SearchError(
            f"{place} is {entry!r}; it must have a key and a type, one of {', '.join(TYPES)}"
        )
    needed = {"key", "type", *TYPES[entry["type"]]}
    if set(entry) != needed:
        raise SearchError(
            f"{place} has {', '.join(sorted(entry))}; type {entry['type']} takes "
            f"{', '.join(sorted(needed))}"
        )
    if "low" in needed:
        low, high = entry["low"], entry["high"]
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        if not (numbers and low < high and (low > 0 or entry["type"] != "loguniform")):
            raise SearchError(f"{place}: low is {low!r}, high {high!r}; low must be smaller, of a "
                              "loguniform positive")  # fmt: skip
    elif not isinstance(entry["values"], list) or not entry["values"]:
        raise SearchError(f"{place}.values is {entry['values']!r}; it must be a list of values")
