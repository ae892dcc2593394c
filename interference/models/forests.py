"""Trees on the features of both sides (scikit-learn): boosted, and extremely randomised."""

from abc import ABC, abstractmethod

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor

from interference.models.design import tree_inputs
from interference.models.encoding import RowEncoder
from interference.models.linear import TypeScale
from interference.models.protocol import Prediction, prediction
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray


class _Trees(ABC):
    """Fits all GPU types together, in units of each type's spread."""

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the draws."""
        self._seed = seed

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Grow the trees."""
        self._encoder = RowEncoder(rows, solos)
        encoded = self._encoder.encode(rows, solos)
        types = len(self._encoder.gpu_types)
        self._scale = TypeScale(encoded.gpu_type, rows.norm_speed, types)
        target = self._scale.scaled(encoded.gpu_type, rows.norm_speed)
        self._grow(tree_inputs(encoded, types), target)

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Value and spread of the trees."""
        encoded = self._encoder.encode(rows, solos)
        scaled, sd = self._ask(tree_inputs(encoded, len(self._encoder.gpu_types)))
        return prediction(
            self._scale.speed(encoded.gpu_type, scaled), self._scale.spread(encoded.gpu_type, sd)
        )

    @abstractmethod
    def _grow(self, inputs: FloatArray, target: FloatArray) -> None:
        """Fit the ensemble."""

    @abstractmethod
    def _ask(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N,) value and (N,) spread, scaled."""


class BoostingModel(_Trees):
    """Stochastic gradient boosting (Friedman 2002)."""

    name = "boosting"

    def __init__(self, *, seed: int, depth: int = 4, trees: int = 300) -> None:
        """Set seed, depth of a tree and number of trees."""
        super().__init__(seed=seed)
        self._depth, self._number = depth, trees

    def _grow(self, inputs: FloatArray, target: FloatArray) -> None:
        self._trees = GradientBoostingRegressor(
            n_estimators=self._number,
            max_depth=self._depth,
            learning_rate=0.05,
            subsample=0.6,
            max_features=0.3,
            min_samples_leaf=3,
            random_state=self._seed,
        ).fit(inputs, target)
        self._sd = float((self._trees.predict(inputs) - target).std())

    def _ask(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._trees.predict(inputs), np.full(len(inputs), self._sd)


class ExtraTreesModel(_Trees):
    """Extremely randomised trees (Geurts, Ernst and Wehenkel 2006); spread is that of the trees."""

    name = "extra_trees"

    def _grow(self, inputs: FloatArray, target: FloatArray) -> None:
        self._trees = ExtraTreesRegressor(
            n_estimators=150, max_features=0.5, min_samples_leaf=3, random_state=self._seed
        ).fit(inputs, target)

    def _ask(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        told = np.stack([tree.predict(inputs) for tree in self._trees.estimators_])
        return told.mean(axis=0), told.std(axis=0)
