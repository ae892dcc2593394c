"""The learned model: a blend whose members depend on whether the jobs were met before.

Where every model of a row was among the fitted rows, a Gaussian process has most of the say, two
kinds of trees the rest. Of a row with a new model, trees over features and mixed effects share it
by a weight that held-out models choose, whose errors set the width of its intervals.
Members that nobody asks are not fitted.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor

from interference.evaluation.judge import LEVEL, NORMAL, Fold, model_folds
from interference.models.encoding import Encoded, Prediction, RowEncoder, SpeedModel, prediction
from interference.models.gaussian_process import GaussianProcessModel
from interference.models.linear import MixedEffectsModel, ScaledModel, tree_inputs
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray


class _Trees(ScaledModel):
    """An ensemble over `tree_inputs`."""

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the draws."""
        self._seed = seed

    def _inputs(self, encoded: Encoded) -> FloatArray:
        return tree_inputs(encoded, len(self._encoder.gpu_types))


FEW_ROWS = 10  # below, a draw may leave no row to judge by


class BoostingModel(_Trees):
    """Stochastic gradient boosting (Friedman 2002)."""

    name = "boosting"

    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        del rows
        inputs = self._inputs(encoded)
        self._trees = GradientBoostingRegressor(
            n_estimators=300,
            max_depth=4,
            learning_rate=0.05,
            subsample=0.6 if len(target) >= FEW_ROWS else 1.0,
            max_features=0.3,
            min_samples_leaf=3,
            random_state=self._seed,
        ).fit(inputs, target)
        self._sd = float((self._trees.predict(inputs) - target).std())

    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        predicted = self._trees.predict(self._inputs(encoded))
        return predicted, np.full(len(predicted), self._sd)


class ExtraTreesModel(_Trees):
    """Extremely randomised trees (Geurts, Ernst and Wehenkel 2006); spread is that of the trees."""

    name = "extra_trees"

    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        del rows
        self._trees = ExtraTreesRegressor(
            n_estimators=150, max_features=0.5, min_samples_leaf=3, random_state=self._seed
        ).fit(self._inputs(encoded), target)

    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        inputs = self._inputs(encoded)
        by_tree = np.stack([tree.predict(inputs) for tree in self._trees.estimators_])
        return by_tree.mean(axis=0), by_tree.std(axis=0)


class WeightedMean:
    """Weighted mean of fitted models; spreads are widened by a factor."""

    def __init__(self, members: list[tuple[float, SpeedModel]], *, widen: float = 1.0) -> None:
        """Take (weight, fitted model) of each, and the factor."""
        self._members, self._widen = members, widen

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Mean, and root of the mean square of spread and distance from the mean."""
        weights = np.array([weight for weight, _ in self._members])
        predictions = [model.predict(rows, solos) for _, model in self._members]
        speeds = np.stack([each.norm_speed for each in predictions])
        mean = weights @ speeds / weights.sum()
        square = np.stack([np.square(each.sd) for each in predictions]) + np.square(speeds - mean)
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


WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of mixed effects
MAY_WIDEN = 4.0


def mean_for_new_models(rows: CoRows, solos: SoloProfiles, seed: int) -> WeightedMean:
    """Choose weight and width on held-out models of the rows, then fit on all of them."""
    weight, widen = 0.5, 1.0
    if folds := list(model_folds(rows, solos)):
        held = _held_out(rows, solos, folds, seed)
        weight = min(WEIGHTS, key=lambda w: float(held.error(w).mean()))
        widen = held.widening(weight)
    return fitted_mean(_new_members(weight, seed), rows, solos, widen=widen)


def _new_members(weight: float, seed: int) -> list[tuple[float, SpeedModel]]:
    trees = (1.0 - weight) / 2.0
    return [
        (weight, MixedEffectsModel()),
        (trees, BoostingModel(seed=seed)),
        (trees, ExtraTreesModel(seed=seed)),
    ]


@dataclass(frozen=True)
class _HeldOut:
    """N predictions of mixed effects and of trees for models that they were not fitted on."""

    mixed: FloatArray  # (N,)
    trees: FloatArray  # (N,)
    square: FloatArray  # (N,) of the members' spreads, mean
    truth: FloatArray  # (N,)
    unit: FloatArray  # (N,) spread of the row's GPU type

    def mean(self, weight: float) -> FloatArray:
        """(N,) with so much of mixed effects."""
        return weight * self.mixed + (1.0 - weight) * self.trees

    def error(self, weight: float) -> FloatArray:
        """(N,) absolute errors in units of their GPU type."""
        return np.abs(self.mean(weight) - self.truth) / self.unit

    def widening(self, weight: float) -> float:
        """Factor on the spread with which LEVEL of the errors lie inside their intervals."""
        mean, other = self.mean(weight), 1.0 - weight
        apart = weight * np.square(self.mixed - mean) + other * np.square(self.trees - mean)
        sd = np.sqrt(self.square + apart)
        ratio = np.abs(mean - self.truth) / np.maximum(sd, 1e-3)
        return float(np.clip(np.quantile(ratio, LEVEL) / NORMAL, 1.0, MAY_WIDEN))


def _held_out(rows: CoRows, solos: SoloProfiles, folds: list[Fold], seed: int) -> _HeldOut:
    spread = {kind: max(float(rows.norm_speed[rows.gpu_type == kind].std()), 1e-3)
              for kind in set(rows.gpu_type)}  # fmt: skip
    parts = []
    for train, test in folds:
        judged, predictions = rows.take(test), []
        for _, model in _new_members(0.5, seed):
            model.fit(rows.take(train), solos)
            predictions.append(model.predict(judged, solos))
        mixed, *trees = (each.norm_speed for each in predictions)
        square = np.mean([np.square(each.sd) for each in predictions], axis=0)
        unit = np.array([spread[kind] for kind in judged.gpu_type])
        parts.append((mixed, sum(trees) / 2.0, square, judged.norm_speed, unit))
    return _HeldOut(*map(np.concatenate, zip(*parts, strict=True)))


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
            if self._met is None:
                members: list[tuple[float, SpeedModel]] = [
                    (0.7, GaussianProcessModel(seed=self._seed)),
                    (0.15, BoostingModel(seed=self._seed)),
                    (0.15, ExtraTreesModel(seed=self._seed)),
                ]
                self._met = fitted_mean(members, self._rows, self._solos)
            predicted = self._met.predict(rows.take(known), solos)
            speed[known], sd[known] = predicted.norm_speed, predicted.sd
        if not known.all():
            self._new = self._new or mean_for_new_models(self._rows, self._solos, self._seed)
            predicted = self._new.predict(rows.take(~known), solos)
            speed[~known], sd[~known] = predicted.norm_speed, predicted.sd
        return prediction(speed, sd)
