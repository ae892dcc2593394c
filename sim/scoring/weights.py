"""Weights of the linear score: by name in files, by place (`sim.scoring.table`) in arrays.

A layer adds outer . tanh(inner z + bias) to a linear score, z standardised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.handle import Handle
from sim.jit import kernel
from sim.scoring.table import ForwardWeight, StartWeight, SuspendWeight

PARTS = ("mean", "scale", "inner", "bias", "outer")
HIDDEN, FEATURE = "hidden unit", "feature"


@dataclass(frozen=True, eq=False)
class Layer:
    """H hidden units over F features; without units (H = 0) the score is linear."""

    mean: FloatArray  # (F,) of the features
    scale: FloatArray  # (F,) what is 1 once standardised; above 0
    inner: FloatArray  # (H, F)
    bias: FloatArray  # (H,)
    outer: FloatArray  # (H,)

    @property
    def size(self) -> int:
        """Hidden units."""
        return len(self.outer)

    def as_lists(self) -> dict[str, object]:
        """The inverse of `layer_from`: what stands in a file of weights."""
        return {part: getattr(self, part).tolist() for part in PARTS}

    def among(self, columns: Sequence[int], features: int) -> "Layer":
        """The same where these are the columns (F,) of more features, which count for nothing."""
        mean, scale, inner = np.zeros(features), np.ones(features), np.zeros((self.size, features))
        mean[columns], scale[columns], inner[:, columns] = self.mean, self.scale, self.inner
        return replace(self, mean=mean, scale=scale, inner=inner)


def no_layer(features: int) -> Layer:
    """A layer without units."""
    none = np.zeros(0)
    return Layer(np.zeros(features), np.ones(features), np.zeros((0, features)), none, none)


def layer_from(values: object, features: int, place: str) -> Layer:
    """The layer that a file of weights describes.

    Args:
        values: `mean`, `scale`, `inner`, `bias`, `outer`, each a list of numbers (`inner`: one
            list a hidden unit); None for no layer.
        features: F.
        place: where it stands, for messages.

    Raises:
        GpuYardError: a part is missing, unknown, of the wrong length, or holds no finite numbers.
    """
    if values is None:
        return no_layer(features)
    if not isinstance(values, Mapping) or set(values) != set(PARTS):
        found = sorted(map(str, values)) if isinstance(values, Mapping) else values
        raise GpuYardError(f"{place} has {found!r}; it must have {', '.join(PARTS)}")
    units = len(values["bias"]) if isinstance(values["bias"], list) else 0
    wanted = {
        "mean": (features, FEATURE), "scale": (features, FEATURE),
        "bias": (units, HIDDEN), "outer": (units, HIDDEN),
    }  # fmt: skip
    rows = _checked(values["inner"], units, f"{place}.inner", HIDDEN)
    parts = {
        part: _numbers(values[part], length, f"{place}.{part}", each)
        for part, (length, each) in wanted.items()
    }
    inner = [_numbers(row, features, f"{place}.inner[{h}]", FEATURE) for h, row in enumerate(rows)]
    if not np.all(parts["scale"] > 0):
        raise GpuYardError(f"{place}.scale has {parts['scale'].min()}; it must be above 0")
    return Layer(inner=np.array(inner).reshape(units, features), **parts)


def _checked(values: object, length: int, place: str, each: str) -> list[object]:
    """`values` if they are a list of that length."""
    if not isinstance(values, list):
        raise GpuYardError(f"{place} is {values!r}; it must be a list of {length} numbers")
    if len(values) != length:
        raise GpuYardError(
            f"{place} has length {len(values)}; expected {length}, one for each {each}"
        )
    return values


def _numbers(values: object, length: int, place: str, each: str) -> FloatArray:
    found = _checked(values, length, place, each)
    for value in found:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not np.isfinite(value):  # type: ignore[call-overload]
            raise GpuYardError(f"{place} has {value!r}; it must hold finite numbers")
    return np.array(found, dtype=np.float64)


@kernel
def copy_numbers(values: FloatArray, out: FloatArray) -> None:
    """Of one kind, so that vectors do no harm (`sim.handle.one_by_one`)."""
    for o in range(len(out)):
        out[o] = values[o]


@kernel
def add_product(x: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """Add x (I,) times weight (I, O) to out (O,), whose numbers lie side by side in memory."""
    for i in range(len(x)):  # outside: an input of 0 spares a whole row of weights
        value = x[i]
        if value != 0.0:  # a third of most candidates' features are 0
            for o in range(len(out)):  # inside: these lie side by side in memory
                out[o] += weight[i, o] * value


@dataclass(frozen=True, eq=False)
class Units(Handle):
    """A layer as compiled code reads it: standardising is part of `inner` and `bias`."""

    inner: FloatArray  # (F, H)
    bias: FloatArray  # (H,)
    outer: FloatArray  # (H,)
    hidden: FloatArray  # (H,) scratch


def units_of(layer: Layer, features: int, name: str) -> Units:
    """The layer's arrays for compiled code, which checks no index.

    Raises:
        GpuYardError: an array has not the length that the others and the features ask for.
    """
    units = layer.size
    wanted = {
        "mean": (features,), "scale": (features,), "inner": (units, features), "bias": (units,),
    }  # fmt: skip
    for part, shape in wanted.items():
        given = np.shape(getattr(layer, part))
        if given != shape:
            raise GpuYardError(f"the layer of {name} has {part} of shape {given}; expected {shape}")
    inner = layer.inner / layer.scale
    return Units(
        inner=np.ascontiguousarray(inner.T),
        bias=layer.bias - inner @ layer.mean,
        outer=np.array(layer.outer, dtype=np.float64),
        hidden=np.zeros(units),
    )


START_FEATURES = tuple(each.name.lower() for each in StartWeight)
FORWARD_FEATURES = tuple(each.name.lower() for each in ForwardWeight)
SUSPEND_FEATURES = tuple(each.name.lower() for each in SuspendWeight)
GROUPS = {"start": START_FEATURES, "forward": FORWARD_FEATURES}
SUSPEND = "suspend"  # a group that may be left out: then nothing is suspended
ALL_GROUPS = GROUPS | {SUSPEND: SUSPEND_FEATURES}
# Features that look ahead. From the first of them on a weight that is left out is 0, which makes
# files good that were written before a feature was there.
AHEAD = {
    "start": slice(StartWeight.WAIT_OVER_LOSS, StartWeight.HOLDS_UP + 1),
    "forward": slice(ForwardWeight.WAIT_DIFFERENCE, ForwardWeight.PUTS_OFF + 1),
    SUSPEND: slice(SuspendWeight.PRESSURE + 1, SuspendWeight.PRESSURE + 1),
}


LAYERS = "layers"  # beside start and forward: what their scores add to the linear part


@dataclass(frozen=True, eq=False)
class ScoreWeights:
    """All that the scores of starts, forwards and suspensions are made of."""

    start: FloatArray  # (StartWeight,)
    forward: FloatArray  # (ForwardWeight,)
    start_layer: Layer = no_layer(len(StartWeight))  # noqa: RUF009 - nobody writes to it
    forward_layer: Layer = no_layer(len(ForwardWeight))  # noqa: RUF009
    suspend: FloatArray | None = None  # (SuspendWeight,); None: nothing is suspended
    suspend_layer: Layer = no_layer(len(SuspendWeight))  # noqa: RUF009

    def looks_ahead(self) -> bool:
        """Whether a weight or layer reads a feature that looks ahead; suspensions do."""
        if self.suspend is not None:
            return True
        pairs = (("start", self.start, self.start_layer),
                 ("forward", self.forward, self.forward_layer))  # fmt: skip
        return any(
            bool(np.any(weights[AHEAD[group]])) or bool(np.any(layer.inner[:, AHEAD[group]]))
            for group, weights, layer in pairs
        )

    def as_mapping(self) -> dict[str, dict[str, Any]]:
        """The inverse of `score_weights_of`: what stands in a file of weights."""
        found: dict[str, dict[str, Any]] = dict(named(self.start, self.forward))
        layers = {"start": self.start_layer, "forward": self.forward_layer}
        if self.suspend is not None:
            pairs = zip(SUSPEND_FEATURES, map(float, self.suspend), strict=True)
            found[SUSPEND] = dict(pairs)
            layers[SUSPEND] = self.suspend_layer
        lists = {group: layer.as_lists() for group, layer in layers.items() if layer.size}
        return found | ({LAYERS: lists} if lists else {})


def score_weights_of(given: Mapping[str, object], place: str) -> ScoreWeights:
    """Weights and layers; `place` is where they stand, for messages.

    Raises:
        GpuYardError: as `weights_of` and `layer_from`.
    """
    if not isinstance(given, Mapping):
        raise GpuYardError(f"{place} is {given!r}; it must hold {', '.join(GROUPS)}")
    start, forward = (weights_of(given, group, place) for group in GROUPS)
    layers = given.get(LAYERS) or {}
    if not isinstance(layers, Mapping):
        raise GpuYardError(f"{place}.{LAYERS} is {layers!r}; it must give a layer to a group")
    groups = ALL_GROUPS if given.get(SUSPEND) is not None else GROUPS
    _refuse(set(layers) - set(groups), f"{place}.{LAYERS}", tuple(groups))
    suspend = weights_of(given, SUSPEND, place) if SUSPEND in groups else None
    found = {}
    for group, names in groups.items():
        # A layer reads the features that its file names, so that those added later change nothing.
        columns = [f for f, name in enumerate(names) if name in given[group]]  # type: ignore[operator]
        layer = layer_from(layers.get(group), len(columns), f"{place}.{LAYERS}.{group}")
        found[f"{group}_layer"] = layer.among(columns, len(names))
    return ScoreWeights(start, forward, suspend=suspend, **found)


def weights_of(given: Mapping[str, object], group: str, place: str) -> FloatArray:
    """The weights of one group (`start`, `forward`, `suspend`) in the order of its features.

    Args:
        given: group -> feature -> weight.
        group: which.
        place: where it stands, for messages.

    Raises:
        GpuYardError: a group or feature is missing or unknown, or a weight is no finite number.
    """
    names, values = ALL_GROUPS[group], given.get(group)
    if not isinstance(values, Mapping):
        raise GpuYardError(f"{place}.{group} is {values!r}; it must give a weight to each feature")
    _refuse(set(given) - {*ALL_GROUPS, LAYERS}, place, (*ALL_GROUPS, LAYERS))
    _refuse(set(values) - set(names), f"{place}.{group}", names)
    optional = dict.fromkeys(names[AHEAD[group].start :], 0.0)
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
    """The inverse of `weights_of`."""
    pairs = {"start": start, "forward": forward}
    return {
        group: dict(zip(GROUPS[group], map(float, values), strict=True))
        for group, values in pairs.items()
    }


def read_weights(path: str, key: str = "scheduler.weights_file") -> Mapping[str, Any]:
    """What a file of `learn.py` holds, unchecked; `key` names it; GpuYardError: no YAML mapping."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GpuYardError(f"{key} is {path}, which cannot be read: {error}") from error
    if not isinstance(values, Mapping):
        raise GpuYardError(f"{path} holds no mapping of start and forward to weights")
    return values
