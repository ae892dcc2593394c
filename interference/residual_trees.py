"""Extremely randomised trees on what the additive fit leaves over (scikit-learn)."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from interference.additive import AdditiveModel
from interference.dataset import ColocationRows
from interference.features import row_features
from interference.model import LEAST_NORM
from sim.arrays import FloatArray


class ResidualTreesModel:
    """Geurts, Ernst and Wehenkel 2006 on the residual; settings chosen on held-out Gavel pairs."""

    name = "residual_trees"

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the split thresholds."""
        self._seed = seed
        self._additive = AdditiveModel()

    def fit(self, rows: ColocationRows) -> None:
        """Additive fit first, then trees on its residual, all GPU types together."""
        self._additive.fit(rows)
        self._trees = ExtraTreesRegressor(
            n_estimators=300, max_features=0.7, random_state=self._seed
        )
        self._trees.fit(self._inputs(rows), rows.norm_speed - self._additive.predict(rows))

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) additive prediction plus predicted residual."""
        norm = self._additive.predict(rows) + self._trees.predict(self._inputs(rows))
        return np.asarray(np.maximum(norm, LEAST_NORM))

    def _inputs(self, rows: ColocationRows) -> FloatArray:
        return np.hstack([row_features(rows), self._additive.predict(rows)[:, None]])
