"""What a score adds to its linear part: outer . tanh(inner z + bias), z standardised."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.handle import Handle
from sim.jit import kernel

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
def add_product(x: FloatArray, weight: FloatArray, out: FloatArray) -> None:
    """Add x (I,) times weight (I, O) to out (O,), whose numbers lie side by side in memory."""
    for i in range(len(x)):
        value = x[i]
        if value != 0.0:  # a third of most candidates' features are 0
            for o in range(len(out)):
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
