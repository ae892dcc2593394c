"""Splits that must not leak, measures by hand, tables that hold nothing that was seen."""

import numpy as np
import pytest

from interference.data_sets import data_sets, generated_rows
from interference.evaluation.judge import (
    choice_score,
    errors_of,
    fit_rows,
    held_out,
    judge,
    measures,
    model_folds,
    model_names,
    models_of,
    pair_folds,
    prediction_lines,
    splits,
)
from interference.fit import cross_fitted, every_cell, fresh_models, predicted_infeasible
from interference.models.encoding import Prediction
from interference.rows import mix_numbers
from sim.errors import PhysicsError
from tests.interference.pair_worlds import (
    NAMES,
    PROFILES,
    TYPES,
    additive_norm,
    rows_of_world,
    smooth_norm,
    solos_of_world,
)


def test_pair_folds_never_split_a_mirror_and_judge_every_row_once():
    rows, _ = generated_rows(np.random.default_rng(0))
    mix, seen = mix_numbers(rows), []
    for train, test in pair_folds(rows, 4, np.random.default_rng(1)):
        assert not set(mix[train]) & set(mix[test])
        seen.append(test)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(len(rows)))


def test_model_folds_fit_on_nothing_of_the_held_out_model():
    rows, solos = generated_rows(np.random.default_rng(0))
    models = models_of(rows, solos)
    folds = list(model_folds(rows, solos))
    assert len(folds) == len({name for row in models for name in row})
    for train, test in folds:
        common = set.intersection(*(set(models[row]) for row in test))
        fitted = {name for row in train for name in models[row]}
        assert len(common) == 1
        assert not common & fitted
        assert len(train) + len(test) == len(rows)


def test_one_gpu_type_has_no_split_by_type():
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    assert list(splits(rows, solos, folds=2, seed=0)) == ["pair", "model", "gpu_type"]
    one = rows.take(rows.gpu_type == "k")
    assert list(splits(one, solos, folds=2, seed=0)) == ["pair", "model"]


@pytest.mark.parametrize("folds", [1, 10_000])
def test_impossible_folds_are_refused(folds):
    rows, _ = generated_rows(np.random.default_rng(0))
    with pytest.raises(PhysicsError, match=f"folds is {folds}"):
        list(pair_folds(rows, folds, np.random.default_rng(0)))


@pytest.mark.parametrize("mixes", [0, 1])
def test_rows_of_one_mix_or_none_have_no_folds(mixes):
    rows, _ = generated_rows(np.random.default_rng(0))
    few = rows.take(mix_numbers(rows) < mixes)
    with pytest.raises(PhysicsError, match=rf"have {mixes} mix; .* at least 2"):
        list(pair_folds(few, 2, np.random.default_rng(0)))


@pytest.mark.parametrize("others", [0, 1])
def test_a_model_that_every_row_has_is_not_held_out(others):
    """All rows have it, or all that are left when another one is held out."""
    rows, solos = generated_rows(np.random.default_rng(0))
    rows = rows.take(fit_rows(rows) & (rows.gpu_type == "p100"))
    models = [set(row) for row in models_of(rows, solos)]
    few = {"LM"} if others else set()
    star = rows.take(np.array(["ResNet-18" in row or row == few for row in models]))
    folds = splits(star, solos, folds=2, seed=0)["model"]
    assert len(folds) == len(model_names(star, solos)) - 1 + others
    judged = held_out(fresh_models(0, ["learned"])[0], star, solos, folds)
    assert np.isfinite(judged.predicted).all()


def test_measures_by_hand():
    rows = rows_of_world(np.full((TYPES, PROFILES, PROFILES), 0.5)).take(np.array([0, 1, 2, 3]))
    rows.norm_speed[:] = [0.4, 0.5, 0.8, 0.7]
    told = Prediction(np.array([0.5, 0.5, 0.6, 0.7]), np.array([0.1, 0.1, 0.1, 0.1]))
    result = measures(prediction_lines(rows, solos_of_world(), told))
    assert result["mae"] == pytest.approx(0.075)
    assert result["mape"] == pytest.approx((0.25 + 0.25) / 4)
    assert result["r2"] == pytest.approx(1 - 0.0125 / 0.025)
    assert result["covered"] == pytest.approx(0.75)  # the third is 0.2 off, the interval 0.1645
    assert result["width"] == pytest.approx(0.329)
    assert result["rows"] == 4


def test_choice_takes_the_best_predicted_partner():
    """Beside NAMES[0] the worths are .4, .6, .9; the model likes the second best most."""
    rows = rows_of_world(np.full((TYPES, PROFILES, PROFILES), 0.5)).take(np.array([1, 2, 3]))
    rows.norm_speed[:] = [0.4, 0.6, 0.9]
    told = Prediction(np.array([0.3, 0.8, 0.7]), np.full(3, 0.1))
    held = prediction_lines(rows, solos_of_world(), told)
    assert choice_score(held) == pytest.approx((0.6 / 0.9, (1.9 / 3) / 0.9))
    assert np.isnan(choice_score(held[:1])).all()


def test_judging_gives_every_split_and_type():
    rows, solos = rows_of_world(additive_norm()), solos_of_world()
    judged = judge(rows, solos, lambda: fresh_models(0, ["constant", "linear"]), folds=3, seed=0)
    lines = errors_of(judged.assign(data_set="made"), {"made"})
    assert list(lines.data_set.unique()) == ["made", "made/k", "made/v"]
    assert list(lines.split.unique()) == ["pair", "model", "gpu_type"]
    errors = lines.set_index(["data_set", "split", "model"]).sort_index()
    mae = errors.mae["made/k", "pair"]
    assert mae["linear"] < mae["constant"]
    assert errors.rows["made", "pair", "linear"] == len(rows)


class Parrot:
    """Repeats what it saw; 0.2 for what it did not see."""

    name = "parrot"

    def fit(self, rows, _):
        keys = zip(rows.gpu_type, rows.victim, rows.aggressors, strict=True)
        self._seen = dict(zip(keys, rows.norm_speed, strict=True))

    def predict(self, rows, _):
        keys = zip(rows.gpu_type, rows.victim, rows.aggressors, strict=True)
        return Prediction(np.array([self._seen.get(k, 0.2) for k in keys]), np.full(len(rows), 0.1))


def test_cross_fitted_table_holds_nothing_that_was_seen():
    rows, solos = rows_of_world(np.full((TYPES, PROFILES, PROFILES), 0.9)), solos_of_world()
    speed, sd = cross_fitted(Parrot(), rows, solos, every_cell(rows, solos), folds=3, seed=0)
    np.testing.assert_array_equal(speed, 0.2)
    np.testing.assert_array_equal(sd, 0.1)


def test_cells_are_in_natural_order_of_batches():
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    cells = every_cell(rows, solos)
    assert cells.profiles == tuple(sorted(NAMES, key=lambda n: (n[:2], int(n.split("/")[1]))))
    assert len(cells.rows) == TYPES * PROFILES * PROFILES


def test_memory_rule_and_observed_pairs():
    rows, solos = generated_rows(np.random.default_rng(0))
    cells = every_cell(rows, solos)
    seen = predicted_infeasible(rows, cells, keep_observed=True)
    at = {name: i for i, name in enumerate(cells.profiles)}
    kinds = {name: i for i, name in enumerate(cells.gpu_types)}
    for kind, victim, (other,), fits in zip(
        rows.gpu_type, rows.victim, rows.aggressors, rows.feasible, strict=True
    ):
        assert seen[kinds[kind], at[victim], at[other]] != fits
    np.testing.assert_array_equal(seen, seen.transpose(0, 2, 1))


def test_data_sets_are_generated_where_there_are_none(tmp_path):
    found = data_sets(tmp_path, seed=0)
    assert list(found) == ["generated"]
    assert found["generated"].source == "generated"
    with pytest.raises(PhysicsError, match=r"'gavel'.* no measured rows .*set GPUYARD_DATA"):
        data_sets(None, seed=0, names=["gavel"])


def test_rows_without_a_speed_of_their_own_are_not_fitted():
    rows, _ = generated_rows(np.random.default_rng(0))
    assert fit_rows(rows).sum() == rows.feasible.sum() < len(rows)
