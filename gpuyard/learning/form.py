"""Weights and layers of the linear score as one vector, and where a search over it begins."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.linear.layer import Layer
from sim.linear.weights import FORWARD_FEATURES, START_FEATURES, ScoreWeights

NUM_START, NUM_FORWARD = len(START_FEATURES), len(FORWARD_FEATURES)
LINEAR = NUM_START + NUM_FORWARD
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
class Form:
    """How a vector is read: linear weights, then inner, bias and outer of each layer."""

    start_units: int
    forward_units: int
    start: Standard  # (StartWeight,)
    forward: Standard  # (ForwardWeight,)

    @property
    def size(self) -> int:
        """Length of a vector."""
        layers = self.start_units * (NUM_START + 2) + self.forward_units * (NUM_FORWARD + 2)
        return LINEAR + layers

    def weights(self, vector: FloatArray) -> ScoreWeights:
        """The weights that a vector (size,) stands for.

        Raises:
            ValueError: it has another length.
        """
        if vector.shape != (self.size,):
            raise ValueError(f"a vector of shape {vector.shape}; expected ({self.size},)")
        cut = LINEAR + self.start_units * (NUM_START + 2)
        return ScoreWeights(
            start=vector[:NUM_START],
            forward=vector[NUM_START:LINEAR],
            start_layer=_layer(vector[LINEAR:cut], self.start_units, self.start),
            forward_layer=_layer(vector[cut:], self.forward_units, self.forward),
        )

    def vector(self, weights: ScoreWeights) -> FloatArray:
        """The inverse of `weights`."""
        layers = [
            part
            for layer in (weights.start_layer, weights.forward_layer)
            for part in (layer.inner.ravel(), layer.bias, layer.outer)
        ]
        return np.concatenate([weights.start, weights.forward, *layers])


def _layer(vector: FloatArray, units: int, standard: Standard) -> Layer:
    cut = units * len(standard.mean)
    return Layer(
        mean=standard.mean,
        scale=standard.scale,
        inner=vector[:cut].reshape(units, len(standard.mean)),
        bias=vector[cut : cut + units],
        outer=vector[cut + units :],
    )


def form_of(weights: ScoreWeights) -> Form:
    """The form of weights that have layers already."""
    one, other = weights.start_layer, weights.forward_layer
    return Form(
        one.size, other.size, Standard(one.mean, one.scale), Standard(other.mean, other.scale)
    )


def first_vector(form: Form, linear: FloatArray, seed: int) -> FloatArray:
    """(size,) where a search begins: linear weights (LINEAR,), layers that add nothing yet.

    Inner weights are drawn from N(0, 1 / features); the outer ones are 0.
    """
    rng = np.random.default_rng(seed)
    parts = [linear]
    for units, features in ((form.start_units, NUM_START), (form.forward_units, NUM_FORWARD)):
        parts += [rng.standard_normal(units * features) / features**0.5, np.zeros(2 * units)]
    return np.concatenate(parts)


def sigmas(form: Form, linear: FloatArray) -> FloatArray:
    """(size,) how far members are from the mean; large weights are varied in larger steps."""
    from_zero = not np.any(linear)
    outer = SIGMA_OUTER_FROM_ZERO if from_zero else SIGMA_OUTER
    first = SIGMA * (SIGMA_BASE + SIGMA_SHARE * np.abs(linear))
    parts = [np.full(LINEAR, SIGMA_FROM_ZERO) if from_zero else first]
    for units, features in ((form.start_units, NUM_START), (form.forward_units, NUM_FORWARD)):
        parts += [np.full(units * (features + 1), SIGMA_INNER), np.full(units, outer)]
    return np.concatenate(parts)
