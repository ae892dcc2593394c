"""The learned model: a blend whose members depend on whether the jobs were met before.

Where every model of a row was among the fitted rows, a Gaussian process has most of the say, two
kinds of trees the rest. Of a row with a new model, trees over features and mixed effects share it
by a weight that held-out models choose, whose errors set the width of its intervals.
Members that nobody asks are not fitted.

The Gaussian process is over rows (Rasmussen and Williams 2006, chapters 2 and 5). Its covariance
(`Likeness`) does not depend on the order of aggressors, and its uncertainty grows with the distance
from what was measured. The parameters maximise the marginal likelihood with a prior, so no held-out
rows are spent on them.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from torch import Tensor

from interference.evaluation.judge import LEVEL, NORMAL, Fold, model_folds
from interference.models.encoding import (
    UNKNOWN,
    Encoded,
    Prediction,
    RowEncoder,
    SpeedModel,
    prediction,
)
from interference.models.linear import MixedEffectsModel, ScaledModel, tree_inputs
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray
from sim.errors import PhysicsError

# ln of what they stand for; each is the middle of a normal prior of width PRIOR_WIDTH
START = {
    "victim_profile": -3.0,
    "victim_model": -1.0,
    "victim_near": -1.0,
    "victim_length": 0.0,
    "aggressor_profile": -3.0,
    "aggressor_model": -1.0,
    "aggressor_near": -1.0,
    "aggressor_length": 0.0,
    "both_profile": -2.0,
    "both_model": -1.0,
    "both_length": 0.0,
    "both": -1.0,
    "constant": -1.0,
    "noise": -3.0,
    "types_side": 0.0,  # logit of the part that GPU types share
    "types_both": 0.0,
}
PRIOR_WIDTH = 1.5


class Likeness:
    """What any covariance of N rows by M rows needs, worked out once."""

    def __init__(self, left: Encoded, right: Encoded) -> None:
        """Distances and equalities."""
        self.same_type = _equal(left.gpu_type, right.gpu_type)
        self.victim = _side(left.victim[:, None], right.victim[:, None])
        self.victim_names = (
            _equal(left.victim_profile, right.victim_profile),
            _equal(left.victim_model, right.victim_model),
        )
        self.aggressor = _side(left.aggressors, right.aggressors)
        self.aggressor_names = (
            _equal(left.aggressor_profile, right.aggressor_profile),
            _equal(left.aggressor_model, right.aggressor_model),
        )
        of_left, of_right = torch.as_tensor(left.present), torch.as_tensor(right.present)
        self.both_present = of_left[:, None, :, None] * of_right[None, :, None, :]

    def covariance(self, ln: dict[str, Tensor]) -> Tensor:
        """(N, M) under the parameters `ln`."""
        shared_side, shared_both = torch.sigmoid(ln["types_side"]), torch.sigmoid(ln["types_both"])
        other = 1.0 - self.same_type
        sides = self._victims(ln, "victim", ln["victim_near"].exp())
        sides = sides + self._aggressors(ln, "aggressor", ln["aggressor_near"].exp())
        one = torch.ones((), dtype=torch.float64)
        both = self._victims(ln, "both", one) * self._aggressors(ln, "both", one)
        return (
            sides * (self.same_type + shared_side * other)
            + ln["both"].exp() * both * (self.same_type + shared_both * other)
            + ln["constant"].exp() * self.same_type
        )

    def _victims(self, ln: dict[str, Tensor], what: str, near: Tensor) -> Tensor:
        profile, model = self.victim_names
        alike = _alike(ln, what, near, self.victim)[:, :, 0, 0]
        return alike + ln[f"{what}_profile"].exp() * profile + ln[f"{what}_model"].exp() * model

    def _aggressors(self, ln: dict[str, Tensor], what: str, near: Tensor) -> Tensor:
        profile, model = self.aggressor_names
        alike = _alike(ln, what, near, self.aggressor)
        alike = alike + ln[f"{what}_profile"].exp() * profile + ln[f"{what}_model"].exp() * model
        return (alike * self.both_present).sum(dim=(2, 3))


def _alike(ln: dict[str, Tensor], what: str, near: Tensor, square: Tensor) -> Tensor:
    return near * torch.exp(-0.5 * square * torch.exp(-2.0 * ln[f"{what}_length"]))


def _equal(left: object, right: object) -> Tensor:
    """(N, M) or, of (N, A) and (M, B), (N, M, A, B): 1 where equal and known."""
    a, b = torch.as_tensor(left), torch.as_tensor(right)
    if a.dim() == 1:
        return ((a[:, None] == b[None]) & (a[:, None] != UNKNOWN)).double()
    a, b = a[:, None, :, None], b[None, :, None, :]
    return ((a == b) & (a != UNKNOWN)).double()


def _side(left: object, right: object) -> Tensor:
    """Mean squared distance of features, (N, M) or (N, M, A, B) for A and B jobs a row."""
    a, b = torch.as_tensor(left), torch.as_tensor(right)
    (n, many, width), (m, others, _) = a.shape, b.shape
    a, b = a.reshape(n * many, width), b.reshape(m * others, width)  # width may be 0
    square = torch.cdist(a, b).square() / max(width, 1)
    return square.reshape(n, many, m, others).permute(0, 2, 1, 3)


TUNING_ROWS = 500  # parameters are chosen on a draw: cost grows with the cube
MOST_ROWS = 6000  # 290 MB a matrix
STEPS = 15  # of L-BFGS
BLOCK = 200
JITTER = 1e-6
NEW = UNKNOWN - 1  # a name that no fitted row has, where it is compared with itself
NAMES = ("gpu_type", "victim_profile", "victim_model", "aggressor_profile", "aggressor_model")


class GaussianProcessModel(ScaledModel):
    """Exact inference on all rows; costs seconds at a thousand rows."""

    name = "gaussian_process"

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the draw on which parameters are chosen."""
        self._seed = seed

    def _learn(self, rows: CoRows, encoded: Encoded, target: FloatArray) -> None:
        """Choose parameters, then condition on the rows."""
        if len(rows) > MOST_ROWS:
            raise PhysicsError(f"{len(rows)} rows are too many for a process; fit {MOST_ROWS}")
        self._fitted, truth = encoded, torch.as_tensor(target)
        draw = np.random.default_rng(self._seed).permutation(len(rows))[:TUNING_ROWS]
        self._ln = _tuned(encoded.take(draw), truth[torch.as_tensor(draw)])
        with torch.no_grad():
            likeness = Likeness(encoded, encoded)
            self._root = _root(likeness.covariance(self._ln), self._ln["noise"])
            self._weights = torch.cholesky_solve(truth[:, None], self._root)[:, 0]

    def _ask(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of a new measurement."""
        mean, sd = np.zeros((2, len(encoded.share)))
        for first in range(0, len(mean), BLOCK):
            block = np.arange(first, min(first + BLOCK, len(mean)))
            asked = encoded.take(block)
            with torch.no_grad():
                cross = Likeness(asked, self._fitted).covariance(self._ln)
                itself = _named(asked)
                own = torch.diagonal(Likeness(itself, itself).covariance(self._ln))
                explained = torch.linalg.solve_triangular(self._root, cross.T, upper=False)
                variance = own - explained.square().sum(dim=0) + self._ln["noise"].exp()
            mean[block] = (cross @ self._weights).numpy()
            sd[block] = variance.clamp(min=JITTER).sqrt().numpy()
        return mean, sd


def _named(encoded: Encoded) -> Encoded:
    """Rows in which what is unknown equals itself: a new job or GPU type varies as known ones do.

    All unknown jobs of a row count as one, which errs on the wide side.
    """
    indices = {name: getattr(encoded, name) for name in NAMES}
    return replace(
        encoded, **{name: np.where(each == UNKNOWN, NEW, each) for name, each in indices.items()}
    )


def _tuned(encoded: Encoded, target: Tensor) -> dict[str, Tensor]:
    """Parameters of the largest posterior density, found by L-BFGS."""
    likeness = Likeness(encoded, encoded)
    ln = {
        name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in START.items()
    }
    search = torch.optim.LBFGS(
        ln.values(), max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-4
    )

    def loss() -> Tensor:
        """Negative ln of the density."""
        search.zero_grad()
        root = _root(likeness.covariance(ln), ln["noise"])
        whitened = torch.linalg.solve_triangular(root, target[:, None], upper=False)
        fit = 0.5 * whitened.square().sum() + torch.log(torch.diagonal(root)).sum()
        away = torch.stack([(ln[name] - start) / PRIOR_WIDTH for name, start in START.items()])
        value = fit + 0.5 * away.square().sum()
        value.backward()
        return value

    search.step(loss)
    return {name: value.detach() for name, value in ln.items()}


def _root(covariance: Tensor, ln_noise: Tensor) -> Tensor:
    noise = (ln_noise.exp() + JITTER) * torch.eye(len(covariance), dtype=torch.float64)
    return torch.linalg.cholesky(covariance + noise)


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
    spread = {gpu_type: max(float(rows.norm_speed[rows.gpu_type == gpu_type].std()), 1e-3)
              for gpu_type in set(rows.gpu_type)}  # fmt: skip
    parts = []
    for train, test in folds:
        judged, predictions = rows.take(test), []
        for _, model in _new_members(0.5, seed):
            model.fit(rows.take(train), solos)
            predictions.append(model.predict(judged, solos))
        mixed, *trees = (each.norm_speed for each in predictions)
        square = np.mean([np.square(each.sd) for each in predictions], axis=0)
        unit = np.array([spread[gpu_type] for gpu_type in judged.gpu_type])
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
