"""The floor for mixes: mean speed by how many tenants there are and what share the victim has."""

from collections import defaultdict

import numpy as np

from interference.models.protocol import Prediction, prediction
from interference.rows import CoRows, SoloProfiles

Crowd = tuple[str, int, float]  # GPU type, aggressors, share


class CrowdModel:
    """One number for each GPU type, number of aggressors and share; of a new one, the mean of all.

    What a model of mixes adds to it is what it knows of the jobs.
    """

    name = "crowd"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:  # noqa: ARG002
        """Take means."""
        speeds = defaultdict(list)
        for crowd, speed in zip(_crowds(rows), rows.norm_speed.tolist(), strict=True):
            speeds[crowd].append(speed)
        self._told = {crowd: (np.mean(each), np.std(each)) for crowd, each in speeds.items()}
        self._all = rows.norm_speed.mean(), rows.norm_speed.std()

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:  # noqa: ARG002
        """The mean of each row's crowd, with the spread of its rows."""
        told = np.array([self._told.get(crowd, self._all) for crowd in _crowds(rows)])
        told = told.reshape(-1, 2)
        return prediction(told[:, 0], told[:, 1])


def _crowds(rows: CoRows) -> list[Crowd]:
    return [
        (kind, len(others), float(share))
        for kind, others, share in zip(rows.gpu_type, rows.aggressors, rows.share, strict=True)
    ]
