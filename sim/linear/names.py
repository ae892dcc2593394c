"""The names of what is weighed, in the order of the weights; `docs/linear_score.md` has a table."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError

START_FEATURES = (
    "bias",
    "spread",
    "spread_x_occupancy",
    "spread_x_duration",
    "spread_x_pressure",
    "duration",
    "age",
    "relative_age",
    "own_slowdown",
    "worst_victim",
    "victims_delay",
    "shared",
    "shared_x_pressure",
    "gang",
    "occupancy",
    "fragments",
    "pressure",
    # Optional: they look at when running jobs are predicted to end.
    "wait_over_loss",
    "prolongs",
    "holds_up",
)
(
    BIAS, SPREAD, SPREAD_X_OCCUPANCY, SPREAD_X_DURATION, SPREAD_X_PRESSURE, DURATION, AGE,
    RELATIVE_AGE, OWN_SLOWDOWN, WORST_VICTIM, VICTIMS_DELAY, SHARED, SHARED_X_PRESSURE, GANG,
    OCCUPANCY, FRAGMENTS, PRESSURE, WAIT_OVER_LOSS, PROLONGS, HOLDS_UP,
) = range(len(START_FEATURES))  # fmt: skip

FORWARD_FEATURES = (
    "bias", "load_difference", "placeable", "duration", "gang", "hops",
    "wait_difference", "start_difference", "prolongs", "fragments", "puts_off",
)  # fmt: skip
(
    F_BIAS, F_LOAD_DIFFERENCE, F_PLACEABLE, F_DURATION, F_GANG, F_HOPS,
    F_WAIT_DIFFERENCE, F_START_DIFFERENCE, F_PROLONGS, F_FRAGMENTS, F_PUTS_OFF,
) = range(len(FORWARD_FEATURES))  # fmt: skip

GROUPS = {"start": START_FEATURES, "forward": FORWARD_FEATURES}
# Features that look ahead; a weight that is left out is 0.
FIRST_AHEAD = {"start": WAIT_OVER_LOSS, "forward": F_WAIT_DIFFERENCE}


def looks_ahead(start: FloatArray, forward: FloatArray) -> bool:
    """Whether any weight of a feature that looks ahead is not 0."""
    return bool(np.any(start[WAIT_OVER_LOSS:]) or np.any(forward[F_WAIT_DIFFERENCE:]))


def weights_of(given: Mapping[str, object], group: str, place: str) -> FloatArray:
    """The weights of one group (`start` or `forward`) in the order of its features.

    Args:
        given: group -> feature -> weight.
        group: which.
        place: where it stands, for messages.

    Raises:
        GpuYardError: a group or feature is missing or unknown, or a weight is no finite number.
    """
    names, values = GROUPS[group], given.get(group)
    if not isinstance(values, Mapping):
        raise GpuYardError(f"{place}.{group} is {values!r}; it must give a weight to each feature")
    _refuse(set(given) - set(GROUPS), place, tuple(GROUPS))
    _refuse(set(values) - set(names), f"{place}.{group}", names)
    optional = dict.fromkeys(names[FIRST_AHEAD[group] :], 0.0)
    known = {**optional, **values}
    return np.array([_finite(known.get(name), f"{place}.{group}.{name}") for name in names])


def _finite(value: object, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
        return float(value)
    raise GpuYardError(f"{place} is {value!r}; it must be a finite number")


def _refuse(unknown: set[str], place: str, known: Sequence[str]) -> None:
    if unknown:
        raise GpuYardError(f"{place} has {min(unknown)!r}; it takes {', '.join(known)}")


def named(start: FloatArray, forward: FloatArray) -> dict[str, dict[str, float]]:
    """The inverse of `weights_of`: what stands in a file of weights."""
    pairs = {"start": start, "forward": forward}
    return {
        group: dict(zip(GROUPS[group], map(float, values), strict=True))
        for group, values in pairs.items()
    }
