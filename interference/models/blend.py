"""The learned model: a blend whose members depend on whether the jobs were met before.

Where every model of a row was among the fitted rows, names and nearness tell most: a Gaussian
process has most of the say, two kinds of trees the rest. Of a row with a model that is new,
trees over features and mixed effects share it by a weight that held-out models of the fitted rows
choose, and their errors set the width of its intervals. Members that nobody asks are not fitted.
"""

import numpy as np

from interference.models.encoding import RowEncoder
from interference.models.forests import BoostingModel, ExtraTreesModel
from interference.models.gaussian_process import GaussianProcessModel
from interference.models.new_models import mean_for_new_models
from interference.models.protocol import Prediction, SpeedModel, prediction
from interference.models.weighted_mean import WeightedMean, fitted_mean
from interference.rows import CoRows, SoloProfiles


class BlendModel:
    """Weighted mean of members by familiarity of the jobs."""

    name = "learned"

    def __init__(self, *, seed: int) -> None:
        """Set the members' seed."""
        self._seed = seed

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Keep the rows; members are fitted when first asked, since most folds ask one kind."""
        self._rows, self._solos = rows, solos
        self._encoder = RowEncoder(rows, solos)
        self._met: WeightedMean | None = None
        self._new: WeightedMean | None = None

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Mean of the members; the spread is theirs and that between them."""
        known = self._encoder.encode(rows, solos).known() > 0
        speed, sd = np.zeros(len(rows)), np.zeros(len(rows))
        if known.any():
            self._met = self._met or _mean_for_met(self._rows, self._solos, self._seed)
            told = self._met.predict(rows.take(known), solos)
            speed[known], sd[known] = told.norm_speed, told.sd
        if not known.all():
            self._new = self._new or mean_for_new_models(self._rows, self._solos, self._seed)
            told = self._new.predict(rows.take(~known), solos)
            speed[~known], sd[~known] = told.norm_speed, told.sd
        return prediction(speed, sd)


def _mean_for_met(rows: CoRows, solos: SoloProfiles, seed: int) -> WeightedMean:
    members: list[tuple[float, SpeedModel]] = [
        (0.7, GaussianProcessModel(seed=seed)),
        (0.15, BoostingModel(seed=seed)),
        (0.15, ExtraTreesModel(seed=seed)),
    ]
    return fitted_mean(members, rows, solos)
