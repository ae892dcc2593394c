"""Gradient-boosted trees on the features of both sides (scikit-learn)."""

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from interference.dataset import ColocationRows
from interference.features import row_features
from interference.model import LEAST_NORM
from sim.arrays import FloatArray


class BoostingModel:
    """Friedman 2002, stochastic gradient boosting; settings chosen on held-out Gavel pairs."""

    name = "boosting"

    def __init__(self, *, seed: int) -> None:
        """Set the seed of row and feature sampling."""
        self._seed = seed

    def fit(self, rows: ColocationRows) -> None:
        """Fit all GPU types together."""
        self._trees = GradientBoostingRegressor(
            n_estimators=500,
            max_depth=5,
            learning_rate=0.05,
            subsample=0.6,
            max_features=0.3,
            random_state=self._seed,
        )
        self._trees.fit(row_features(rows), rows.norm_speed)

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) sum of the trees."""
        return np.asarray(np.maximum(self._trees.predict(row_features(rows)), LEAST_NORM))
