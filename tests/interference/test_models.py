"""Models on rows made by a known rule; splits that must not leak."""

import numpy as np
import pytest

from interference.additive import AdditiveModel
from interference.boosting import BoostingModel
from interference.constant import ConstantModel
from interference.cross_fit import cross_fitted_table, every_cell
from interference.dataset import ColocationRows, pair_number
from interference.evaluate import held_out_errors, measures, pair_folds, profile_folds
from interference.generated import generated_rows
from interference.linear import LinearModel
from interference.model import LEAST_NORM
from interference.residual_trees import ResidualTreesModel
from sim.arrays import FloatArray
from sim.errors import PhysicsError

PROFILES, TYPES = 8, 2


def rows_with(norm: FloatArray) -> ColocationRows:
    """All cells of a (T, P, P) table, with solo times that differ by profile and type."""
    types, victim, aggressor = (index.ravel() for index in np.indices(norm.shape))
    solo_s = np.linspace(0.1, 0.5, PROFILES)[:, None] * np.array([1.0, 0.4])
    return ColocationRows(
        gpu_types=("k", "v"),
        profiles=tuple(f"M{i % 3}/{2**i}" for i in range(PROFILES)),
        solo_s=solo_s,
        gpu_type=types,
        victim=victim,
        aggressor=aggressor,
        pair=pair_number(victim, aggressor, PROFILES),
        norm_speed=norm.ravel(),
        feasible=np.ones(norm.size, np.bool_),
        source="measured",
    )


def additive_norm() -> FloatArray:
    rng = np.random.default_rng(0)
    victim, aggressor = rng.normal(0, 0.2, (2, TYPES, PROFILES))
    return np.exp(-0.5 + victim[:, :, None] + aggressor[:, None, :])


def all_models():
    return [
        ConstantModel(),
        AdditiveModel(),
        LinearModel(),
        BoostingModel(seed=0),
        ResidualTreesModel(seed=0),
    ]


def test_pair_folds_never_split_a_mirror_and_test_every_row_once():
    rows = generated_rows(np.random.default_rng(0))
    seen = []
    for train, test in pair_folds(rows, 4, np.random.default_rng(1)):
        assert not set(rows.pair[train]) & set(rows.pair[test])
        seen.append(test)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(len(rows)))


def test_profile_folds_train_without_the_tested_victims():
    rows = generated_rows(np.random.default_rng(0))
    for train, test in profile_folds(rows, 4, np.random.default_rng(1)):
        known = set(rows.victim[train]) | set(rows.aggressor[train])
        assert not known & set(rows.victim[test])


@pytest.mark.parametrize("folds", [1, 10_000])
def test_impossible_folds_are_refused(folds):
    rows = generated_rows(np.random.default_rng(0))
    with pytest.raises(PhysicsError, match=f"folds is {folds}"):
        list(pair_folds(rows, folds, np.random.default_rng(0)))


def test_constant_predicts_the_mean_of_the_type():
    norm = np.full((TYPES, PROFILES, PROFILES), 0.5)
    norm[1] = 0.8
    norm[1, 0, 0] = 0.16
    model = ConstantModel()
    rows = rows_with(norm)
    model.fit(rows)
    predicted = model.predict(rows)
    assert set(np.round(predicted, 6)) == {0.5, 0.79}


def test_additive_model_is_exact_on_additive_rows():
    rows = rows_with(additive_norm())
    folds = list(pair_folds(rows, 4, np.random.default_rng(0)))
    assert held_out_errors(AdditiveModel(), rows, folds)["all"]["mae"] < 1e-6


def test_linear_model_is_exact_on_a_plane_in_ln_solo_time():
    rows = rows_with(additive_norm())
    log_s = np.log(rows.solo_s)
    plane = 0.6 + 0.1 * log_s[rows.victim, rows.gpu_type] - 0.05 * log_s[rows.aggressor, 0]
    rows = rows_with(plane.reshape(TYPES, PROFILES, PROFILES))
    folds = list(profile_folds(rows, 4, np.random.default_rng(0)))
    assert held_out_errors(LinearModel(), rows, folds)["all"]["mae"] < 1e-6


@pytest.mark.parametrize("model", all_models()[1:], ids=lambda model: model.name)
def test_every_model_beats_the_constant_on_generated_pairs(model):
    rows = generated_rows(np.random.default_rng(0))
    rows = rows.take(rows.feasible)
    folds = list(pair_folds(rows, 2, np.random.default_rng(0)))
    floor = held_out_errors(ConstantModel(), rows, folds)["all"]["mae"]
    assert held_out_errors(model, rows, folds)["all"]["mae"] < 0.85 * floor


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.name)
def test_prediction_does_not_read_the_answer_and_repeats(model):
    rows = rows_with(additive_norm())
    model.fit(rows)
    first = model.predict(rows)
    model.fit(rows)
    np.testing.assert_array_equal(model.predict(every_cell(rows)), first)
    assert np.all(first >= LEAST_NORM)


def test_measures_by_hand():
    rows = rows_with(np.full((TYPES, PROFILES, PROFILES), 0.5))
    rows.norm_speed[:2] = [0.4, 0.6]
    rows = rows.take(np.array([0, 1]))  # both of type k
    result = measures(rows, np.array([0.5, 0.5]))
    assert result["k"]["mae"] == pytest.approx(0.1)
    assert result["k"]["r2"] == pytest.approx(0.0)
    assert result["v"]["rows"] == 0
    assert np.isnan(result["v"]["mae"])


class Parrot:
    """Repeats what it saw; 0.2 for what it did not see."""

    name = "parrot"

    def fit(self, rows: ColocationRows) -> None:
        self._table = np.full((TYPES, PROFILES, PROFILES), 0.2)
        self._table[rows.gpu_type, rows.victim, rows.aggressor] = rows.norm_speed

    def predict(self, rows: ColocationRows) -> FloatArray:
        return self._table[rows.gpu_type, rows.victim, rows.aggressor]


def test_cross_fitted_table_holds_nothing_that_was_seen():
    rows = rows_with(np.full((TYPES, PROFILES, PROFILES), 0.9))
    table = cross_fitted_table(Parrot(), rows, folds=3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(table, 0.2)
