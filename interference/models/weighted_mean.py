"""The weighted mean of several models."""

import numpy as np

from interference.models.protocol import Prediction, SpeedModel, prediction
from interference.rows import CoRows, SoloProfiles


class WeightedMean:
    """Weighted mean of fitted models; spreads are widened by a factor."""

    def __init__(self, members: list[tuple[float, SpeedModel]], *, widen: float = 1.0) -> None:
        """Take (weight, fitted model) of each, and the factor."""
        self._members, self._widen = members, widen

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Mean, and root of the mean square of spread and distance from the mean."""
        weights = np.array([weight for weight, _ in self._members])
        told = [model.predict(rows, solos) for _, model in self._members]
        speeds = np.stack([each.norm_speed for each in told])
        mean = weights @ speeds / weights.sum()
        square = np.stack([np.square(each.sd) for each in told]) + np.square(speeds - mean)
        return prediction(mean, self._widen * np.sqrt(weights @ square / weights.sum()))


def fitted_mean(
    members: list[tuple[float, SpeedModel]],
    rows: CoRows,
    solos: SoloProfiles,
    *,
    widen: float = 1.0,
) -> WeightedMean:
    """Fit the members of weight above 0 on all rows."""
    used = [(weight, model) for weight, model in members if weight > 0.0]
    for _, model in used:
        model.fit(rows, solos)
    return WeightedMean(used, widen=widen)
