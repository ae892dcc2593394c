"""Linear parts of models: design matrices, memory fits, mixed effects (Henderson 1975)."""

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from interference.models.encoding import UNKNOWN, Encoded, RowEncoder
from interference.models.linear import PlanesByType, TypeScale
from interference.models.protocol import Prediction, prediction
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray, IntArray


def counts(numbers: IntArray, kinds: int) -> FloatArray:
    """(N, kinds) how often each number stands in a row of (N,) or (N, A); UNKNOWN is no kind."""
    table = np.zeros((len(numbers), kinds + 1))
    flat = numbers.reshape(len(numbers), -1)
    np.add.at(table, (np.arange(len(flat))[:, None], np.where(flat == UNKNOWN, kinds, flat)), 1.0)
    return table[:, :kinds]


def identities(encoded: Encoded, profiles: int) -> FloatArray:
    """(N, 2 P) who the victim is, and who its aggressors are."""
    return np.hstack(
        [counts(encoded.victim_profile, profiles), counts(encoded.aggressor_profile, profiles)]
    )


def kinships(encoded: Encoded, models: int) -> FloatArray:
    """(N, 2 M) the same of models."""
    return np.hstack(
        [counts(encoded.victim_model, models), counts(encoded.aggressor_model, models)]
    )


def numbers(encoded: Encoded) -> FloatArray:
    """(N, 2 F + 1) features of the victim, sum of the aggressors', share."""
    return np.hstack([encoded.victim, encoded.pooled()[1], encoded.share[:, None]])


def tree_inputs(encoded: Encoded, types: int) -> FloatArray:
    """(N, ...) what trees split on: both sides, their sum and difference, GPU type, share.

    Sums and differences are there because a tree needs many splits for one slanted line.
    """
    mean, total = encoded.pooled()
    victim = encoded.victim
    return np.hstack(
        [
            victim,
            mean,
            victim - mean,
            victim + total,
            encoded.present.sum(axis=1, keepdims=True),
            encoded.share[:, None],
            counts(encoded.gpu_type, types),
        ]
    )


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
