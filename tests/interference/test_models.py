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
from tests.interference import pair_worlds as worlds
from tests.interference.pair_worlds import MEMORY, NAMES, UTIL, rows_of_world, solos_of_world

SMOOTH, SOLOS = rows_of_world(worlds.smooth_norm()), solos_of_world()
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


def pair_errors(model, rows):
    parts = list(pair_folds(rows, 3, np.random.default_rng(0)))
    return measures(held_out(model, rows, SOLOS, parts))


def test_constant_predicts_mean_and_spread_of_the_type():
    norm = np.full((worlds.TYPES, worlds.PROFILES, worlds.PROFILES), 0.5)
    norm[1] = 0.8
    norm[1, 0, 0] = 0.395
    rows, model = rows_of_world(norm), ConstantModel()
    model.fit(rows, SOLOS)
    told = model.predict(rows, SOLOS)
    assert set(np.round(told.norm_speed, 6)) == {0.5, 0.795}
    np.testing.assert_allclose(told.sd[rows.gpu_type == "v"], norm[1].std())


def test_linear_model_is_exact_on_a_plane_over_utilisations_also_of_new_models():
    own, other = UTIL.T[:, :, None], UTIL.T[:, None, :]
    plane = 0.9 - 0.2 * own - 0.3 * other + 0.1 * MEMORY[:, None]
    rows = rows_of_world(plane)
    assert pair_errors(LinearModel(), rows)["mae"] < 1e-3
    rows = rows.take(~np.isin(rows.victim, [NAMES[0], NAMES[-1]]))  # edges would be cut
    parts = list(model_folds(rows, SOLOS))
    assert measures(held_out(LinearModel(), rows, SOLOS, parts))["mae"] < 0.03


@pytest.mark.parametrize("name", [name for name in MODELS if name != "constant"])
def test_every_model_beats_the_constant_on_held_out_pairs(name):
    floor = pair_errors(ConstantModel(), SMOOTH)["mae"]
    assert pair_errors(MODELS[name](), SMOOTH)["mae"] < 0.5 * floor


@pytest.mark.parametrize("name", MODELS)
def test_prediction_does_not_read_the_answer_and_repeats(name):
    nothing = np.full(len(SMOOTH), np.nan)
    blank, told = replace(SMOOTH, norm_speed=nothing, feasible=np.isfinite(nothing)), []
    for _ in range(2):
        model = MODELS[name]()
        model.fit(SMOOTH, SOLOS)
        told.append(model.predict(blank, SOLOS))
    np.testing.assert_array_equal(told[0].norm_speed, told[1].norm_speed)
    assert np.all(told[0].norm_speed >= LEAST_SPEED)
    assert np.all(told[0].sd > 0)


@pytest.mark.parametrize("name", MODELS)
def test_jobs_and_gpu_types_never_met_get_finite_predictions(name):
    beside = np.array([other for (other,) in SMOOTH.aggressors])
    new = np.isin(SMOOTH.victim, NAMES[::3]) | np.isin(beside, NAMES[::3])  # all of model M0
    known, model = (SMOOTH.gpu_type == "k") & ~new, MODELS[name]()
    model.fit(SMOOTH.take(known), SOLOS)
    told = model.predict(SMOOTH.take(~known), SOLOS)
    assert np.all(np.isfinite(told.norm_speed) & np.isfinite(told.sd))
    assert np.all((told.norm_speed > 0.0) & (told.norm_speed < 2.0))


@pytest.mark.parametrize("name", ["mixed_effects", "boosting", "gaussian_process", "learned"])
def test_names_of_profiles_do_not_matter_only_who_is_who(name):
    other = {old: f"N{old[1]}/{old.split('/')[1]}" for old in NAMES}
    renamed = replace(
        SMOOTH,
        victim=objects([other[each] for each in SMOOTH.victim]),
        aggressors=objects([tuple(other[each] for each in row) for row in SMOOTH.aggressors]),
    )
    told = []
    for each, profiles in ((SMOOTH, SOLOS), (renamed, solos_of_world(names=(*other.values(),)))):
        model = MODELS[name]()
        model.fit(each.take(np.arange(0, len(each), 2)), profiles)
        told.append(model.predict(each, profiles).norm_speed)
    np.testing.assert_allclose(told[0], told[1], rtol=1e-6)


def test_features_hold_solo_numbers_only_and_agree_for_equal_jobs():
    n, half = len(SOLOS), np.full(len(SOLOS), 0.5)
    twins = replace(SOLOS, step_s=np.ones(n), gpu_util=half, gmem_util=half, batch=np.full(n, 8))
    values = list(job_features(twins).values.values())
    for other in values[1:]:
        np.testing.assert_array_equal(values[0], other)


def test_process_is_surer_near_what_it_saw_and_its_intervals_hold():
    rng = np.random.default_rng(3)
    clean, model = worlds.smooth_norm(), GaussianProcessModel(seed=0)
    rows = rows_of_world(np.clip(clean + rng.normal(0, 0.03, clean.shape), 0.1, 1.2))
    assert 0.8 <= pair_errors(GaussianProcessModel(seed=0), rows)["covered"] <= 0.98
    low = np.array([int(name.split("/")[1]) < 2**5 for name in rows.victim])
    model.fit(rows.take(low), SOLOS)
    sd = model.predict(rows, SOLOS).sd
    assert sd[low].mean() < 0.7 * sd[~low].mean()


def test_process_takes_what_it_never_met_to_differ_as_much_as_what_it_met():
    """Equal inputs, other names: the spread is that of jobs or types among each other."""
    twin = SOLOS.take(SOLOS.profile == NAMES[0])
    twin = replace(twin, profile=objects(["N/1"] * 2), model=objects(["N"] * 2))
    new_type = SOLOS.take(SOLOS.gpu_type == "k")
    new_type = replace(new_type, gpu_type=objects(["new"] * len(new_type)))
    solos, norm = stacked_profiles([SOLOS, twin, new_type]), worlds.additive_norm()
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
    rows = replace(
        SMOOTH.take(np.zeros(150, np.int64)), group=np.arange(150), aggressors=objects(mixes),
        victim=objects(list(rng.choice(NAMES, 150))),
        norm_speed=np.array([1.0 - 0.2 * sum(util[each] for each in mix) for mix in mixes]),
    )  # fmt: skip
    model = MODELS[name]()
    model.fit(rows, SOLOS)
    one, three = (
        model.predict(replace(rows.take(np.array([0])), aggressors=objects([beside])), SOLOS)
        for beside in ((NAMES[5],), (NAMES[5],) * 3)
    )
    assert three.norm_speed < one.norm_speed - 0.05


def test_unknown_model_is_named_with_the_nearest():
    with pytest.raises(PhysicsError, match=r"'learnd'.*'learned'"):
        fresh_models(0, ["learnd"])
    with pytest.raises(PhysicsError, match="'boosting'; it is a part of learned; use constant"):
        fresh_models(0, ["boosting"])
