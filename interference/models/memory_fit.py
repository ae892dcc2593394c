"""Which groups of jobs do not fit into a GPU's memory, from their solo profiles."""

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from interference.models.design import counts, tree_inputs
from interference.models.encoding import RowEncoder
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray


class MemoryFitModel:
    """Probability that a group does not fit; the same for every job of it.

    Extremely randomised trees over the features of all jobs and over which profiles they are. The
    memory that jobs hold is among the features where the source tells it; Gavel does not, so there
    step time and batch stand in.
    """

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the trees."""
        self._seed = seed

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Learn from tried groups, whether they fitted or not."""
        self._encoder = RowEncoder(rows, solos)
        self._never = not (~rows.feasible).any()
        if not self._never:
            self._trees = ExtraTreesClassifier(
                n_estimators=200,
                min_samples_leaf=2,
                class_weight="balanced",
                random_state=self._seed,
            ).fit(self._inputs(rows, solos), ~rows.feasible)

    def predict(self, rows: CoRows, solos: SoloProfiles) -> FloatArray:
        """(N,) probability; balanced, so 0.5 is the fair threshold for rare failures."""
        if self._never:
            return np.zeros(len(rows))
        told = np.asarray(self._trees.predict_proba(self._inputs(rows, solos))[:, 1])
        return _mean_of_group(told, rows)

    def _inputs(self, rows: CoRows, solos: SoloProfiles) -> FloatArray:
        encoded = self._encoder.encode(rows, solos)
        profiles = len(self._encoder.profiles)
        members = counts(encoded.victim_profile, profiles)
        members = members + counts(encoded.aggressor_profile, profiles)
        return np.hstack([tree_inputs(encoded, len(self._encoder.gpu_types)), members])


def _mean_of_group(values: FloatArray, rows: CoRows) -> FloatArray:
    _, index = np.unique(rows.group, return_inverse=True)
    return np.asarray((np.bincount(index, values) / np.bincount(index))[index])
