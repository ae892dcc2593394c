"""Simple models: LIF-Linear, a plane a GPU type, the floors that every model must beat, and more.

LIF-Linear regresses on what each job uses alone, as least-interference-first schedulers do. Where a
source has no utilisations (Gavel, DeepShare) the inputs are what it does have of a run alone.
Chosen here: no names, no products, aggressors' inputs are added up, one plane a GPU type.

Others take design matrices from here; mixed effects are Henderson's (1975).
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable

import numpy as np
from sklearn.linear_model import Ridge

from interference.models.encoding import UNKNOWN, Encoded, Prediction, RowEncoder, prediction
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray, IntArray

LEAST_ROWS = 8  # of a type, to have its own mean and spread


class ScaledModel(ABC):
    """Fits all GPU types together, each in units of its own mean and spread.

    A type with few rows, or one that no fitted row has, is measured in those of all rows.
    """

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Learn from the scaled speeds."""
        self._encoder = RowEncoder(rows, solos)
        encoded = self._encoder.encode(rows, solos)
        gpu_type, speed, types = encoded.gpu_type, rows.norm_speed, len(self._encoder.gpu_types)
        self._mean = np.full(types + 1, speed.mean())  # the last one is for unknown types
        self._spread = np.full(types + 1, max(float(speed.std()), 1e-3))
        for each in range(types):
            here = speed[gpu_type == each]
            if len(here) >= LEAST_ROWS and here.std() > 0:
                self._mean[each], self._spread[each] = here.mean(), here.std()
        self._learn(rows, encoded, (speed - self._mean[gpu_type]) / self._spread[gpu_type])

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """What was learned says, as speeds again."""
        encoded = self._encoder.encode(rows, solos)
        scaled, sd = self._ask(encoded)
        mean, spread = self._mean[encoded.gpu_type], self._spread[encoded.gpu_type]
        return prediction(scaled * spread + mean, sd * spread)

    @abstractmethod
    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        """Fit (N,) scaled speeds."""

    @abstractmethod
    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        """(N,) value and (N,) standard deviation, both scaled."""


class PlanesByType:
    """Least squares with a penalty on the weights, intercept free."""

    def __init__(self, penalty: float) -> None:
        """Set the weight of the squared weights."""
        self._penalty = penalty

    def fit(self, inputs: FloatArray, target: FloatArray, gpu_type: IntArray) -> None:
        """Fit; a GPU type needs LEAST_ROWS rows for a plane of its own."""
        self._all = self._plane(inputs, target)
        self._own = {
            int(each): self._plane(inputs[here], target[here])
            for each in np.unique(gpu_type)
            for here in [gpu_type == each]
            if here.sum() >= LEAST_ROWS
        }

    def predict(self, inputs: FloatArray, gpu_type: IntArray) -> FloatArray:
        """(N,) value of each row's plane."""
        value = np.zeros(len(inputs))
        for each in np.unique(gpu_type):
            here = gpu_type == each
            value[here] = self._own.get(int(each), self._all).predict(inputs[here])
        return value

    def _plane(self, inputs: FloatArray, target: FloatArray) -> Ridge:
        return Ridge(alpha=self._penalty).fit(inputs, target)


UTILISATIONS = ("gpu_util", "gmem_util", "ln_gmem", "ln_bandwidth")
INSTEAD = ("ln_step", "ln_samples_per_s", "ln_gpus", "ln_nodes")
PENALTY = 1e-3


class LinearModel:
    """One least-squares plane a GPU type; knows no names."""

    name = "linear"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Least squares, GPU type by GPU type."""
        self._encoder = RowEncoder(rows, solos)
        names = self._encoder.feature_names
        used = [name for name in names if name in UTILISATIONS]
        other_types = [f"ln_step_{name}" for name in self._encoder.gpu_types]
        used = used or [name for name in names if name in (*INSTEAD, *other_types)]
        self._columns = [names.index(name) for name in used]
        encoded = self._encoder.encode(rows, solos)
        self._planes = PlanesByType(PENALTY)
        inputs = self._inputs(encoded)
        self._planes.fit(inputs, rows.norm_speed, encoded.gpu_type)
        fitted = self._planes.predict(inputs, encoded.gpu_type)
        self._sd = float((fitted - rows.norm_speed).std())

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Value of the plane, with the spread of the fitted residuals."""
        encoded = self._encoder.encode(rows, solos)
        return prediction(self._planes.predict(self._inputs(encoded), encoded.gpu_type), self._sd)

    def _inputs(self, encoded: Encoded) -> FloatArray:
        columns = self._columns
        sides = encoded.victim[:, columns], encoded.pooled()[1][:, columns]
        return np.hstack([*sides, encoded.share[:, None]])


class _MeansModel(ABC):
    """One number for each kind of rows, with their spread; of a new kind, the mean of all."""

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:  # noqa: ARG002  (the role)
        """Take means."""
        speeds = defaultdict(list)
        for kind, speed in zip(self._kinds(rows), rows.norm_speed.tolist(), strict=True):
            speeds[kind].append(speed)
        self._moments = {kind: (np.mean(each), np.std(each)) for kind, each in speeds.items()}
        self._all = rows.norm_speed.mean(), rows.norm_speed.std()

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:  # noqa: ARG002
        """The mean of each row's kind, with the spread of its rows."""
        moments = np.array([self._moments.get(kind, self._all) for kind in self._kinds(rows)])
        moments = moments.reshape(-1, 2)
        return prediction(moments[:, 0], moments[:, 1])

    @abstractmethod
    def _kinds(self, rows: CoRows) -> Iterable[Hashable]:
        """(N,) what tells the kinds apart."""


class ConstantModel(_MeansModel):
    """One number a GPU type."""

    name = "constant"

    def _kinds(self, rows: CoRows) -> Iterable[Hashable]:
        return rows.gpu_type.tolist()


class CrowdModel(_MeansModel):
    """One number for each GPU type, number of aggressors and share.

    What a model of mixes adds to it is what it knows of the jobs.
    """

    name = "crowd"

    def _kinds(self, rows: CoRows) -> Iterable[Hashable]:
        return zip(rows.gpu_type, map(len, rows.aggressors), rows.share.tolist(), strict=True)


def counts(numbers: IntArray, kinds: int) -> FloatArray:
    """(N, kinds) how often each number stands in a row of (N,) or (N, A); UNKNOWN is no kind."""
    table = np.zeros((len(numbers), kinds + 1))
    flat = numbers.reshape(len(numbers), -1)
    np.add.at(table, (np.arange(len(flat))[:, None], np.where(flat == UNKNOWN, kinds, flat)), 1.0)
    return table[:, :kinds]


def tree_inputs(encoded: Encoded, types: int) -> FloatArray:
    """(N, ...) what trees split on: both sides, their sum and difference, GPU type, share.

    Sums and differences are there because a tree needs many splits for one slanted line.
    """
    mean, total = encoded.pooled()
    victim = encoded.victim
    return np.hstack(
        [
            victim,
            mean,
            victim - mean,
            victim + total,
            encoded.present.sum(axis=1, keepdims=True),
            encoded.share[:, None],
            counts(encoded.gpu_type, types),
        ]
    )


NAMES_PENALTY = 5.0  # about the ratio of noise to the spread of terms on Gavel's rows
FEATURE_WEIGHT = 0.4  # below 1: features are believed less than names


class MixedEffectsModel(ScaledModel):
    """Ridge over names, models and features, one a GPU type; the spread is that of residuals."""

    name = "mixed_effects"

    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        del rows
        self._planes = PlanesByType(NAMES_PENALTY)
        self._planes.fit(self._design(encoded), target, encoded.gpu_type)
        fitted = self._planes.predict(self._design(encoded), encoded.gpu_type)
        self._sd = float((fitted - target).std())

    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        predicted = self._planes.predict(self._design(encoded), encoded.gpu_type)
        return predicted, np.full(len(predicted), self._sd)

    def _design(self, encoded: Encoded) -> FloatArray:
        """(N, 2 P + 2 M + 2 F + 1) profiles, models and features of both sides, share."""
        profiles, models = len(self._encoder.profiles), len(self._encoder.models)
        numbers = [encoded.victim, encoded.pooled()[1], encoded.share[:, None]]
        return np.hstack([
            counts(encoded.victim_profile, profiles), counts(encoded.aggressor_profile, profiles),
            counts(encoded.victim_model, models), counts(encoded.aggressor_model, models),
            *(FEATURE_WEIGHT * each for each in numbers),
        ])  # fmt: skip
