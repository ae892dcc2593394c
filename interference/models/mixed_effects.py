"""Mixed effects: terms of profile and of model, drawn to zero, beside a plane over features.

Additive terms of the jobs that it knows, shrunk as random effects are (Henderson 1975,
ridge form); of a new job the features say something and the partner's terms the rest.
"""

import numpy as np

from interference.models.by_type import PlanesByType
from interference.models.design import identities, kinships, numbers
from interference.models.encoding import Encoded, RowEncoder
from interference.models.protocol import Prediction, prediction
from interference.models.scaling import TypeScale
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray

PENALTY = 5.0  # about the ratio of noise to the spread of terms on Gavel's rows
FEATURE_WEIGHT = 0.4  # below 1: features are believed less than names


class MixedEffectsModel:
    """Ridge over names, models and features, one a GPU type."""

    name = "mixed_effects"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Penalised least squares."""
        self._encoder = RowEncoder(rows, solos)
        encoded = self._encoder.encode(rows, solos)
        self._scale = TypeScale(encoded.gpu_type, rows.norm_speed, len(self._encoder.gpu_types))
        self._planes = PlanesByType(PENALTY)
        target = self._scale.scaled(encoded.gpu_type, rows.norm_speed)
        self._planes.fit(self._design(encoded), target, encoded.gpu_type)
        fitted = self._planes.predict(self._design(encoded), encoded.gpu_type)
        self._sd = float((fitted - target).std())

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Value of the plane, with the spread of the fitted residuals."""
        encoded = self._encoder.encode(rows, solos)
        scaled = self._planes.predict(self._design(encoded), encoded.gpu_type)
        sd = self._scale.spread(encoded.gpu_type, np.full(len(rows), self._sd))
        return prediction(self._scale.speed(encoded.gpu_type, scaled), sd)

    def _design(self, encoded: Encoded) -> FloatArray:
        names = identities(encoded, len(self._encoder.profiles))
        models = kinships(encoded, len(self._encoder.models))
        return np.hstack([names, models, FEATURE_WEIGHT * numbers(encoded)])
