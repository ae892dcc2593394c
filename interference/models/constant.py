"""The floor every model must beat: the mean normalised speed of the GPU type."""

import numpy as np

from interference.models.protocol import Prediction, prediction
from interference.rows import CoRows, SoloProfiles


class ConstantModel:
    """One number a GPU type; a type without rows gets the mean of all."""

    name = "constant"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:  # noqa: ARG002  (the role)
        """Take means."""
        speed = rows.norm_speed
        self._all = float(speed.mean()), float(speed.std())
        self._types = {
            kind: (float(speed[here].mean()), float(speed[here].std()))
            for kind in set(rows.gpu_type)
            for here in [rows.gpu_type == kind]
        }

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:  # noqa: ARG002
        """The mean of each row's GPU type, with the spread of its rows."""
        told = np.array([self._types.get(kind, self._all) for kind in rows.gpu_type])
        told = told.reshape(-1, 2)
        return prediction(told[:, 0], told[:, 1])
