"""Models on rows made by a known law."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from interference.evaluation.judge import held_out, measures, model_folds, pair_folds
from interference.fit import fresh_models
from interference.models.blend import BlendModel, BoostingModel, ExtraTreesModel
from interference.models.encoding import LEAST_SPEED, job_features
from interference.models.gaussian_process import GaussianProcessModel
from interference.models.linear import ConstantModel, LinearModel, MixedEffectsModel
from interference.rows import solo_profiles, stacked_profiles
from sim.arrays import objects
from sim.errors import PhysicsError
from tests.interference.pair_worlds import (
    MEMORY,
    NAMES,
    PROFILES,
    TYPES,
    UTIL,
    additive_norm,
    rows_of_world,
    smooth_norm,
    solos_of_world,
)

# The deep set has the same tests, on fewer members, in test_deep_set.py.
MODELS = {
    "constant": ConstantModel,
    "linear": LinearModel,
    "mixed_effects": MixedEffectsModel,
    "boosting": partial(BoostingModel, seed=0),
    "extra_trees": partial(ExtraTreesModel, seed=0),
    "gaussian_process": partial(GaussianProcessModel, seed=0),
    "learned": partial(BlendModel, seed=0),
}
NAMES_OF_MODELS = list(MODELS)


def model_named(name):
    return MODELS[name]()


def pair_errors(model, rows, solos, folds=3):
    parts = list(pair_folds(rows, folds, np.random.default_rng(0)))
    return measures(held_out(model, rows, solos, parts))


def test_constant_predicts_mean_and_spread_of_the_type():
    norm = np.full((TYPES, PROFILES, PROFILES), 0.5)
    norm[1] = 0.8
    norm[1, 0, 0] = 0.395
    rows, solos = rows_of_world(norm), solos_of_world()
    model = ConstantModel()
    model.fit(rows, solos)
    told = model.predict(rows, solos)
    assert set(np.round(told.norm_speed, 6)) == {0.5, 0.795}
    np.testing.assert_allclose(told.sd[rows.gpu_type == "v"], norm[1].std())


def test_linear_model_is_exact_on_a_plane_over_utilisations_also_of_new_models():
    own, other = UTIL.T[:, :, None], UTIL.T[:, None, :]
    plane = 0.9 - 0.2 * own - 0.3 * other + 0.1 * MEMORY[:, None]
    rows, solos = rows_of_world(plane), solos_of_world()
    assert pair_errors(LinearModel(), rows, solos)["mae"] < 1e-3
    rows = rows.take(~np.isin(rows.victim, [NAMES[0], NAMES[-1]]))  # edges would be cut
    parts = list(model_folds(rows, solos))
    assert measures(held_out(LinearModel(), rows, solos, parts))["mae"] < 0.03


@pytest.mark.parametrize("name", NAMES_OF_MODELS[1:])
def test_every_model_beats_the_constant_on_held_out_pairs(name):
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    floor = pair_errors(ConstantModel(), rows, solos)["mae"]
    assert pair_errors(model_named(name), rows, solos)["mae"] < 0.5 * floor


@pytest.mark.parametrize("name", NAMES_OF_MODELS)
def test_prediction_does_not_read_the_answer_and_repeats(name):
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    told = []
    for _ in range(2):
        model = model_named(name)
        model.fit(rows, solos)
        blank = replace(
            rows, norm_speed=np.full(len(rows), np.nan), feasible=np.zeros(len(rows), np.bool_)
        )
        told.append(model.predict(blank, solos))
    np.testing.assert_array_equal(told[0].norm_speed, told[1].norm_speed)
    assert np.all(told[0].norm_speed >= LEAST_SPEED)
    assert np.all(told[0].sd > 0)


@pytest.mark.parametrize("name", NAMES_OF_MODELS)
def test_jobs_and_gpu_types_never_met_get_finite_predictions(name):
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    known = rows.gpu_type == "k"
    for name_of_one in NAMES[::3]:  # all of model M0
        known &= rows.victim != name_of_one
        known &= np.array([name_of_one not in others for others in rows.aggressors])
    model = model_named(name)
    model.fit(rows.take(known), solos)
    told = model.predict(rows.take(~known), solos)
    assert np.all(np.isfinite(told.norm_speed) & np.isfinite(told.sd))
    assert np.all((told.norm_speed > 0.0) & (told.norm_speed < 2.0))


@pytest.mark.parametrize("name", ["mixed_effects", "boosting", "gaussian_process", "learned"])
def test_names_of_profiles_do_not_matter_only_who_is_who(name):
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    other = {old: f"N{old[1]}/{old.split('/')[1]}" for old in NAMES}
    renamed = replace(
        rows,
        victim=objects([other[each] for each in rows.victim]),
        aggressors=objects([tuple(other[each] for each in row) for row in rows.aggressors]),
    )
    told = []
    for each, profiles in (
        (rows, solos),
        (renamed, solos_of_world(names=tuple(other[old] for old in NAMES))),
    ):
        model = model_named(name)
        model.fit(each.take(np.arange(0, len(each), 2)), profiles)
        told.append(model.predict(each, profiles).norm_speed)
    np.testing.assert_allclose(told[0], told[1], rtol=1e-6)


def test_features_hold_solo_numbers_only_and_agree_for_equal_jobs():
    solos = solos_of_world()
    twins = replace(
        solos,
        step_s=np.ones(len(solos)),
        gpu_util=np.full(len(solos), 0.5),
        gmem_util=np.full(len(solos), 0.5),
        batch=np.full(len(solos), 8),
    )
    values = list(job_features(twins).values.values())
    for other in values[1:]:
        np.testing.assert_array_equal(values[0], other)


def test_process_is_surer_near_what_it_saw_and_its_intervals_hold():
    rng = np.random.default_rng(3)
    clean = smooth_norm()
    rows = rows_of_world(np.clip(clean + rng.normal(0, 0.03, clean.shape), 0.1, 1.2))
    solos = solos_of_world()
    parts = list(pair_folds(rows, 3, np.random.default_rng(0)))
    told = measures(held_out(GaussianProcessModel(seed=0), rows, solos, parts))
    assert 0.8 <= told["covered"] <= 0.98
    model = GaussianProcessModel(seed=0)
    low = np.array([int(name.split("/")[1]) < 2**5 for name in rows.victim])
    model.fit(rows.take(low), solos)
    sd = model.predict(rows, solos).sd
    assert sd[low].mean() < 0.7 * sd[~low].mean()


def test_process_takes_what_it_never_met_to_differ_as_much_as_what_it_met():
    """Equal inputs, other names: the spread is that of jobs or types among each other."""
    known = solos_of_world()
    twin = known.take(known.profile == NAMES[0])
    twin = replace(twin, profile=objects(["N/1"] * 2), model=objects(["N"] * 2))
    new_type = known.take(known.gpu_type == "k")
    new_type = replace(new_type, gpu_type=objects(["new"] * len(new_type)))
    solos, norm = stacked_profiles([known, twin, new_type]), additive_norm()
    rows, model = rows_of_world(norm), GaussianProcessModel(seed=0)
    model.fit(rows, solos)
    asked = rows.take((rows.gpu_type == "k") & (rows.victim == NAMES[0]))
    n = len(asked)
    for other, spread in (
        (replace(asked, victim=objects(["N/1"] * n)), norm[0].std(axis=0).mean()),
        (replace(asked, aggressors=objects([("N/1",)] * n)), norm[0].std(axis=1).mean()),
        (replace(asked, gpu_type=objects(["new"] * n)), norm.std()),
    ):
        assert spread < model.predict(other, solos).sd.mean() < 2.0 * spread


def test_gangs_in_mixed_precision_are_compared_with_their_own():
    """One GPU and two on a server: twice as fast with amp, as fast without."""
    solos = solo_profiles(
        source="made", gpu_type="k", profile=["A/8@amp", "A/8@2x1@amp", "A/8", "A/8@2x1"],
        model=["A"] * 4, batch=np.full(4, 8), gpus=np.array([1, 2, 1, 2]), nodes=1,
        amp=np.array([True, True, False, False]), step_s=np.array([0.2, 0.1, 0.4, 0.4]),
    )  # fmt: skip
    features = job_features(solos)
    gain = features.names.index("ln_gain_2")
    told = [features.values[key][gain] for key in solos.keys()]  # noqa: SIM118
    assert told == pytest.approx([np.log(2.0)] * 2 + [0.0] * 2)


@pytest.mark.parametrize("name", ["mixed_effects", "extra_trees", "gaussian_process"])
def test_more_aggressors_slow_down_more(name):
    """Law: every aggressor takes a fifth of its utilisation."""
    rng = np.random.default_rng(0)
    util = dict(zip(NAMES, UTIL[:, 0], strict=True))
    mixes = [tuple(sorted(rng.choice(NAMES, rng.integers(1, 4)))) for _ in range(150)]
    base = rows_of_world(smooth_norm()).take(np.zeros(150, np.int64))
    victims = objects(list(rng.choice(NAMES, 150)))
    rows = replace(
        base,
        group=np.arange(150),
        victim=victims,
        aggressors=objects(mixes),
        norm_speed=np.array([1.0 - 0.2 * sum(util[each] for each in mix) for mix in mixes]),
    )
    solos, model = solos_of_world(), model_named(name)
    model.fit(rows, solos)
    one, three = rows.take(np.array([0])), rows.take(np.array([0]))
    one = replace(one, aggressors=objects([(NAMES[5],)]))
    three = replace(three, aggressors=objects([(NAMES[5],) * 3]))
    assert model.predict(three, solos).norm_speed < model.predict(one, solos).norm_speed - 0.05


def test_unknown_model_is_named_with_the_nearest():
    with pytest.raises(PhysicsError, match=r"'learnd'.*'learned'"):
        fresh_models(0, ["learnd"])
    with pytest.raises(PhysicsError, match="'boosting'; it is a part of learned; use constant"):
        fresh_models(0, ["boosting"])
