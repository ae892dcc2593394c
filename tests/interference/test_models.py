"""Models on rows made by a known law; a deep set does not see the order of tenants."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from interference.evaluation.judge import NORMAL, held_out, measures, model_folds, pair_folds
from interference.fit import fresh_models
from interference.models import blend
from interference.models.deep_set import DeepSetModel, DeepSets, conformal_factor, pooled
from interference.models.deep_set_rows import TIMES, Hiding, Size, Tenants, division
from interference.models.encoding import LEAST_SPEED, UNKNOWN, Encoded, RowEncoder, job_features
from interference.models.linear import ConstantModel, LinearModel, MixedEffectsModel
from interference.rows import CoRows, mix_numbers, solo_profiles, stacked_profiles
from sim.arrays import objects
from sim.errors import PhysicsError
from tests.interference import mix_worlds
from tests.interference import pair_worlds as worlds
from tests.interference.mix_worlds import KIND, crowded, drawn, rows_of_mixes
from tests.interference.pair_worlds import MEMORY, NAMES, UTIL, rows_of_world, solos_of_world

SMOOTH, SOLOS = rows_of_world(worlds.smooth_norm()), solos_of_world()
# The deep set has the same tests, on fewer members, below.
MODELS = {
    "constant": ConstantModel,
    "linear": LinearModel,
    "mixed_effects": MixedEffectsModel,
    "boosting": partial(blend.BoostingModel, seed=0),
    "extra_trees": partial(blend.ExtraTreesModel, seed=0),
    "gaussian_process": partial(blend.GaussianProcessModel, seed=0),
    "learned": partial(blend.BlendModel, seed=0),
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
    clean, model = worlds.smooth_norm(), blend.GaussianProcessModel(seed=0)
    rows = rows_of_world(np.clip(clean + rng.normal(0, 0.03, clean.shape), 0.1, 1.2))
    assert 0.8 <= pair_errors(blend.GaussianProcessModel(seed=0), rows)["covered"] <= 0.98
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
    rows, model = rows_of_world(norm), blend.GaussianProcessModel(seed=0)
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


STEPS = 250
MIX_SOLOS = mix_worlds.solos_of_mixes()
NOISE = {name: 0.01 if mix_worlds.UTIL[name] < 0.3 else 0.06 for name in mix_worlds.NAMES}


def noisy_rows(seed: int, count: int) -> CoRows:
    rng = np.random.default_rng(seed)
    return rows_of_mixes(
        drawn(rng, count, most=4),
        lambda victim, others, share: crowded(victim, others, share) + NOISE[victim] * rng.normal(),
    )


def model_of(rows: CoRows, seed: int = 0, steps: int = STEPS) -> DeepSetModel:
    model = DeepSetModel(seed=seed, steps=steps)
    model.fit(rows, MIX_SOLOS)
    return model


@pytest.fixture(scope="module")
def fitted() -> DeepSetModel:
    return model_of(noisy_rows(0, 250))


def with_model(rows: CoRows, name: str) -> np.ndarray:
    jobs = [(victim, *others) for victim, others in zip(rows.victim, rows.aggressors, strict=True)]
    return np.array([any(job.startswith(name) for job in each) for each in jobs])


def encoded_mixes() -> tuple[Encoded, Size]:
    rows = noisy_rows(0, 40)
    encoder = RowEncoder(rows, MIX_SOLOS)
    return encoder.encode(rows, MIX_SOLOS), Size.of(encoder)


def told_by_net(encoded: Encoded, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    net = DeepSets(size, members=2, width=4, hidden=8, generator=draws)
    rows = Tenants.of(encoded, size)
    with torch.no_grad():
        return net(rows.take(torch.arange(len(rows)).expand(2, -1)))


def test_the_order_of_aggressors_and_what_stands_in_place_of_absent_ones_do_not_count():
    encoded, size = encoded_mixes()
    told = told_by_net(encoded, size)
    of_aggressors = ("aggressors", "present", "aggressor_profile", "aggressor_model")
    turned = {name: getattr(encoded, name)[:, ::-1].copy() for name in of_aggressors}
    absent = encoded.present == 0.0
    filled = {
        "aggressors": np.where(absent[..., None], 7.0, encoded.aggressors),
        "aggressor_model": np.where(absent, 1, encoded.aggressor_model),
    }
    for change in (turned, filled):
        for one, other in zip(told, told_by_net(replace(encoded, **change), size), strict=True):
            torch.testing.assert_close(one, other)
    # ... and of one that is there it does
    there = replace(encoded, aggressors=np.where(absent[..., None], encoded.aggressors, 7.0))
    assert not torch.allclose(told_by_net(there, size)[0], told[0])


def test_a_larger_mix_in_the_table_changes_no_other_row(fitted):
    pair, crowd = (mix_worlds.NAMES[1], mix_worlds.NAMES[8]), mix_worlds.NAMES[:7]
    alone = fitted.predict(rows_of_mixes([pair], crowded), MIX_SOLOS)
    beside = fitted.predict(rows_of_mixes([pair, crowd], crowded), MIX_SOLOS)
    np.testing.assert_allclose(beside.norm_speed[:2], alone.norm_speed, rtol=1e-5)
    np.testing.assert_allclose(beside.sd[:2], alone.sd, rtol=1e-5)


def test_more_of_one_aggressor_is_never_faster(fitted):
    for victim in mix_worlds.NAMES[::4]:
        mixes = [(victim, *[mix_worlds.NAMES[9]] * many) for many in range(4)]
        rows = rows_of_mixes(mixes, crowded)
        first = np.unique(rows.group, return_index=True)[1]  # the victim's row of each mix
        told = fitted.predict(rows.take(first), MIX_SOLOS).norm_speed
        assert np.all(np.diff(told) < 0.0), (victim, told)


def test_intervals_cover_new_mixes_and_are_wider_where_there_is_more_noise(fitted):
    rows = noisy_rows(1, 400)
    told = fitted.predict(rows, MIX_SOLOS)
    covered = np.abs(told.norm_speed - rows.norm_speed) <= NORMAL * told.sd
    assert 0.84 <= covered.mean() <= 0.96
    loud = np.array([NOISE[name] > 0.03 for name in rows.victim])
    assert told.sd[loud].mean() > 2.0 * told.sd[~loud].mean()
    exact = rows_of_mixes(drawn(np.random.default_rng(2), 200, most=4), crowded)
    wrong = np.abs(fitted.predict(exact, MIX_SOLOS).norm_speed - exact.norm_speed)
    assert wrong.mean() < 0.25 * np.abs(exact.norm_speed - exact.norm_speed.mean()).mean()


def test_jobs_and_gpu_types_never_met_are_told_with_wider_intervals(fitted):
    rows = noisy_rows(0, 250)
    new = with_model(rows, "dog")
    told = model_of(rows.take(~new)).predict(rows, MIX_SOLOS)
    assert np.isfinite(told.norm_speed).all() and np.isfinite(told.sd).all()
    assert told.sd[new].mean() > 1.5 * told.sd[~new].mean()
    mixes = drawn(np.random.default_rng(3), 50, most=4)
    solos = mix_worlds.solos_of_mixes(kinds=(KIND, "z"))
    told = [fitted.predict(rows_of_mixes(mixes, crowded, kind=kind), solos) for kind in (KIND, "z")]
    assert np.isfinite(told[1].norm_speed).all()
    assert told[1].sd.mean() > 1.2 * told[0].sd.mean()


def test_a_seed_repeats_the_answers_are_not_read_and_threads_are_as_they_were():
    rows, before = noisy_rows(0, 60), torch.get_num_threads()
    asked = replace(rows, norm_speed=np.full(len(rows), 0.5))
    try:
        torch.set_num_threads(2)
        told = [model_of(rows, seed, steps=20).predict(asked, MIX_SOLOS) for seed in (3, 3, 4)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(told[0].norm_speed, told[1].norm_speed)
    np.testing.assert_array_equal(told[0].sd, told[1].sd)
    assert not np.allclose(told[0].norm_speed, told[2].norm_speed)


def test_jobs_alone_can_be_fitted_and_one_mix_is_too_few():
    alone = [(name,) for name in mix_worlds.NAMES]
    rows = rows_of_mixes(
        alone,
        lambda name, _, share: min(1.0, share / mix_worlds.UTIL[name]),
        shares=(0.1, 0.3, 0.5),
    )
    told = model_of(rows).predict(rows, MIX_SOLOS).norm_speed
    assert np.corrcoef(told, rows.norm_speed)[0, 1] > 0.9
    with pytest.raises(PhysicsError, match=r"1 mix of jobs"):
        model_of(rows_of_mixes([mix_worlds.NAMES[:3], mix_worlds.NAMES[:3]], crowded), steps=1)


def test_members_leave_out_whole_mixes_and_whole_models():
    rows = noisy_rows(0, 60)
    encoder = RowEncoder(rows, MIX_SOLOS)
    encoded = encoder.encode(rows, MIX_SOLOS)
    mix, models = mix_numbers(rows), len(encoder.models)
    parts = division(mix, encoded, models, np.random.default_rng(0))
    by_mix = parts.outside[~parts.for_new]
    assert np.all(by_mix.sum(axis=0) == TIMES)
    for member in by_mix:
        assert not set(mix[member]) & set(mix[~member])
    assert not parts.forgotten[~parts.for_new].any()
    assert np.all(parts.forgotten[parts.for_new].sum(axis=0) == [1] * models + [0])
    for member, marks in zip(
        parts.outside[parts.for_new], parts.forgotten[parts.for_new], strict=True
    ):
        named = [name for name, mark in zip(encoder.models, marks[:-1], strict=True) if mark]
        met = np.any([with_model(rows, name) for name in named], axis=0)
        np.testing.assert_array_equal(member, met)


def test_what_is_hidden_is_forgotten_and_blurred():
    encoded, size = encoded_mixes()
    rows = Tenants.of(encoded, size)
    draws = torch.Generator().manual_seed(0)
    same = rows.hide(Hiding(model=0.0, profile=0.0, gpu_type=0.0, blur=1.0), size, draws)
    torch.testing.assert_close(same.victim, rows.victim)
    half = rows.hide(Hiding(model=0.5, profile=0.5, gpu_type=0.5, blur=1.0), size, draws)
    hidden = half.victim_model == size.models
    assert 0.3 < hidden.float().mean() < 0.7
    assert torch.all(half.victim_profile[hidden] == size.profiles)
    assert torch.all((half.victim == rows.victim).all(dim=1) == ~hidden)
    assert 0.3 < (half.gpu_type == size.types).float().mean() < 0.7
    stranger = replace(encoded, victim_model=np.full(len(encoded.victim), UNKNOWN))
    assert torch.all(Tenants.of(stranger, size).victim_model == size.models)  # the last index


def test_a_member_takes_models_it_never_met_as_unknown_in_both_roles():
    encoded, size = encoded_mixes()
    rows = Tenants.of(encoded, size)
    marks = torch.zeros(2, size.models + 1, dtype=torch.bool)
    marks[1, 0] = True  # the second member never met the first model
    both = rows.take(torch.arange(len(rows)).expand(2, -1)).forget(marks, size)
    for side in ("victim", "aggressor"):
        model, profile = getattr(rows, f"{side}_model"), getattr(rows, f"{side}_profile")
        of_member = getattr(both, f"{side}_model"), getattr(both, f"{side}_profile")
        assert torch.equal(of_member[0][0], model)
        assert torch.equal(of_member[0][1], torch.where(model == 0, size.models, model))
        assert torch.equal(of_member[1][1], torch.where(model == 0, size.profiles, profile))


def test_a_mixture_by_hand():
    mean, sd = np.array([[1.0, 0.0], [3.0, 5.0]]), np.array([[1.0, 2.0], [1.0, 9.0]])
    middle, spread = pooled(mean, sd, np.array([[True, True], [True, False]]))
    np.testing.assert_allclose(middle, [2.0, 0.0])
    np.testing.assert_allclose(spread, [np.sqrt(1.0 + 1.0), 2.0])


def test_the_factor_makes_ninety_of_a_hundred_intervals_hold():
    target = np.arange(1.0, 101.0)  # 1 to 100 spreads away from a mean of 0
    zeros, ones = np.zeros((1, 100)), np.ones((1, 100))
    factor = conformal_factor(target, zeros, ones, np.ones((1, 100), np.bool_))
    assert factor * NORMAL == pytest.approx(91.0)  # the 0.9 * 101st, rounded up
    odd = np.arange(100)[None] % 2 == 0  # 1, 3, ... 99: rows that nobody left out are not judged
    assert conformal_factor(target, zeros, ones, odd) * NORMAL == pytest.approx(91.0)
