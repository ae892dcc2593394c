"""Additive terms of victim and aggressors in ln(normalised speed), one fit a GPU type."""

import numpy as np

from interference.models.by_type import PlanesByType
from interference.models.design import identities
from interference.models.encoding import RowEncoder
from interference.models.protocol import LEAST_SPEED, Prediction, prediction
from interference.rows import CoRows, SoloProfiles

PENALTY = 1e-3  # enough to make the terms unique


class AdditiveModel:
    """Knows each profile by name; a profile without rows is taken as average."""

    name = "additive"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Least squares, GPU type by GPU type."""
        self._encoder = RowEncoder(rows, solos)
        encoded = self._encoder.encode(rows, solos)
        self._planes = PlanesByType(PENALTY)
        design = identities(encoded, len(self._encoder.profiles))
        target = np.log(np.maximum(rows.norm_speed, LEAST_SPEED))
        self._planes.fit(design, target, encoded.gpu_type)
        fitted = np.exp(self._planes.predict(design, encoded.gpu_type))
        self._sd = float((fitted - rows.norm_speed).std())

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Exp of the sum of terms, with the spread of the fitted residuals."""
        encoded = self._encoder.encode(rows, solos)
        design = identities(encoded, len(self._encoder.profiles))
        return prediction(np.exp(self._planes.predict(design, encoded.gpu_type)), self._sd)
