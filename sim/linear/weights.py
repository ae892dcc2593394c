"""Weights of the linear score: by name in files, by place (`sim.scoring.table`) in arrays."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.scoring.table import ForwardWeight, StartWeight

START_FEATURES = tuple(each.name.lower() for each in StartWeight)
FORWARD_FEATURES = tuple(each.name.lower() for each in ForwardWeight)
GROUPS = {"start": START_FEATURES, "forward": FORWARD_FEATURES}
# Features that look ahead; a weight that is left out is 0.
FIRST_AHEAD = {"start": StartWeight.WAIT_OVER_LOSS, "forward": ForwardWeight.WAIT_DIFFERENCE}


def looks_ahead(start: FloatArray, forward: FloatArray) -> bool:
    """Whether any weight of a feature that looks ahead is not 0."""
    first = FIRST_AHEAD
    return bool(np.any(start[first["start"] :]) or np.any(forward[first["forward"] :]))


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


def read_weights(path: str) -> Mapping[str, Any]:
    """Groups of weights of a file as `scripts/tune_linear_score.py` writes them, not checked yet.

    Raises:
        GpuYardError: there is no such file, or it is no YAML mapping.
    """
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GpuYardError(
            f"scheduler.weights_file is {path}, which cannot be read: {error}"
        ) from error
    if not isinstance(values, Mapping):
        raise GpuYardError(f"{path} holds no mapping of start and forward to weights")
    return values
