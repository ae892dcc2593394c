"""Weights and layers of the linear score as one vector, and where a search over it begins."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.linear.layer import Layer
from sim.linear.weights import ALL_GROUPS, GROUPS, SUSPEND, ScoreWeights

# How far members are from the mean.
SIGMA, SIGMA_BASE, SIGMA_SHARE = 0.4, 0.5, 0.25  # 0.4 (0.5 + 0.25 |w|) of a linear weight
SIGMA_FROM_ZERO = 2 * SIGMA_BASE
SIGMA_INNER = 0.1
SIGMA_OUTER, SIGMA_OUTER_FROM_ZERO = 0.15, 0.3


@dataclass(frozen=True, eq=False)
class Standard:
    """What a feature is on the whole: inputs of a layer are (x - mean) / scale."""

    mean: FloatArray  # (F,)
    scale: FloatArray  # (F,) above 0


@dataclass(frozen=True, eq=False)
class Part:
    """One group of weights and its layer."""

    group: str  # of `sim.linear.weights.ALL_GROUPS`
    units: int
    standard: Standard  # of its F features

    @property
    def features(self) -> int:
        """F."""
        return len(self.standard.mean)


@dataclass(frozen=True, eq=False)
class Form:
    """How a vector is read: linear weights of all groups, then inner, bias and outer of each."""

    parts: tuple[Part, ...]

    @property
    def linear(self) -> int:
        """How many linear weights there are."""
        return sum(part.features for part in self.parts)

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.linear + sum(part.units * (part.features + 2) for part in self.parts)

    def weights(self, vector: FloatArray) -> ScoreWeights:
        """The weights that a vector (size,) stands for.

        Raises:
            ValueError: it has another length.
        """
        if vector.shape != (self.size,):
            raise ValueError(f"a vector of shape {vector.shape}; expected ({self.size},)")
        found: dict[str, FloatArray | Layer] = {}
        at, layer_at = 0, self.linear
        for part in self.parts:
            found[part.group] = vector[at : at + part.features]
            at += part.features
            end = layer_at + part.units * (part.features + 2)
            found[f"{part.group}_layer"] = _layer(vector[layer_at:end], part)
            layer_at = end
        return ScoreWeights(**found)  # type: ignore[arg-type]

    def vector(self, weights: ScoreWeights) -> FloatArray:
        """The inverse of `weights`."""
        layers = [
            part
            for _, layer in _layers(weights)
            for part in (layer.inner.ravel(), layer.bias, layer.outer)
        ]
        return np.concatenate([linear_of(weights), *layers])


def _layers(weights: ScoreWeights) -> Iterator[tuple[str, Layer]]:
    for group in groups_of(weights):
        yield group, getattr(weights, f"{group}_layer")


def groups_of(weights: ScoreWeights) -> tuple[str, ...]:
    """The groups that the weights have."""
    return tuple(ALL_GROUPS if weights.suspend is not None else GROUPS)


def linear_of(weights: ScoreWeights) -> FloatArray:
    """(linear,) the linear weights of all groups."""
    return np.concatenate([getattr(weights, group) for group in groups_of(weights)])


def zero_weights(suspends: bool) -> ScoreWeights:
    """All weights 0; with those of suspensions, if any."""
    start, forward, suspend = (np.zeros(len(ALL_GROUPS[group])) for group in (*GROUPS, SUSPEND))
    return ScoreWeights(start, forward, suspend=suspend if suspends else None)


def _layer(vector: FloatArray, part: Part) -> Layer:
    units, features = part.units, part.features
    cut = units * features
    return Layer(
        mean=part.standard.mean,
        scale=part.standard.scale,
        inner=vector[:cut].reshape(units, features),
        bias=vector[cut : cut + units],
        outer=vector[cut + units :],
    )


def form_of(weights: ScoreWeights) -> Form:
    """The form of weights that have layers already."""
    return Form(
        tuple(
            Part(group, layer.size, Standard(layer.mean, layer.scale))
            for group, layer in _layers(weights)
        )
    )


def first_vector(form: Form, linear: FloatArray, seed: int) -> FloatArray:
    """(size,) where a search begins: linear weights (linear,), layers that add nothing yet.

    Inner weights are drawn from N(0, 1 / features); the outer ones are 0.
    """
    rng = np.random.default_rng(seed)
    vectors = [linear]
    for part in form.parts:
        inner = rng.standard_normal(part.units * part.features) / part.features**0.5
        vectors += [inner, np.zeros(2 * part.units)]
    return np.concatenate(vectors)


def sigmas(form: Form, linear: FloatArray) -> FloatArray:
    """(size,) how far members are from the mean; large weights are varied in larger steps."""
    from_zero = not np.any(linear)
    outer = SIGMA_OUTER_FROM_ZERO if from_zero else SIGMA_OUTER
    first = SIGMA * (SIGMA_BASE + SIGMA_SHARE * np.abs(linear))
    vectors = [np.full(form.linear, SIGMA_FROM_ZERO) if from_zero else first]
    for part in form.parts:
        inner = np.full(part.units * (part.features + 1), SIGMA_INNER)
        vectors += [inner, np.full(part.units, outer)]
    return np.concatenate(vectors)
