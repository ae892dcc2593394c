"""A deep set does not see the order of tenants, and knows how wrong it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interference.evaluation.judge import NORMAL
from interference.models.deep_set import DeepSetModel, DeepSets, conformal_factor, pooled
from interference.models.deep_set_rows import TIMES, Hiding, Size, Tenants, division
from interference.models.encoding import UNKNOWN, Encoded, RowEncoder
from interference.rows import CoRows, mix_numbers
from sim.errors import PhysicsError
from tests.interference import mix_worlds
from tests.interference.mix_worlds import KIND, NAMES, UTIL, crowded, drawn, rows_of_mixes

STEPS = 250
SOLOS = mix_worlds.solos_of_mixes()
NOISE = {name: 0.01 if UTIL[name] < 0.3 else 0.06 for name in NAMES}


def noisy_rows(seed: int, count: int) -> CoRows:
    rng = np.random.default_rng(seed)
    return rows_of_mixes(
        drawn(rng, count, most=4),
        lambda victim, others, share: crowded(victim, others, share) + NOISE[victim] * rng.normal(),
    )


def model_of(rows: CoRows, seed: int = 0, steps: int = STEPS) -> DeepSetModel:
    model = DeepSetModel(seed=seed, steps=steps)
    model.fit(rows, SOLOS)
    return model


@pytest.fixture(scope="module")
def fitted() -> DeepSetModel:
    return model_of(noisy_rows(0, 250))


def with_model(rows: CoRows, name: str) -> np.ndarray:
    jobs = [(victim, *others) for victim, others in zip(rows.victim, rows.aggressors, strict=True)]
    return np.array([any(job.startswith(name) for job in each) for each in jobs])


def encoded_mixes() -> tuple[Encoded, Size]:
    rows = noisy_rows(0, 40)
    encoder = RowEncoder(rows, SOLOS)
    return encoder.encode(rows, SOLOS), Size.of(encoder)


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
    pair, crowd = (NAMES[1], NAMES[8]), NAMES[:7]
    alone = fitted.predict(rows_of_mixes([pair], crowded), SOLOS)
    beside = fitted.predict(rows_of_mixes([pair, crowd], crowded), SOLOS)
    np.testing.assert_allclose(beside.norm_speed[:2], alone.norm_speed, rtol=1e-5)
    np.testing.assert_allclose(beside.sd[:2], alone.sd, rtol=1e-5)


def test_more_of_one_aggressor_is_never_faster(fitted):
    for victim in NAMES[::4]:
        mixes = [(victim, *[NAMES[9]] * many) for many in range(4)]
        rows = rows_of_mixes(mixes, crowded)
        first = np.unique(rows.group, return_index=True)[1]  # the victim's row of each mix
        told = fitted.predict(rows.take(first), SOLOS).norm_speed
        assert np.all(np.diff(told) < 0.0), (victim, told)


def test_intervals_cover_new_mixes_and_are_wider_where_there_is_more_noise(fitted):
    rows = noisy_rows(1, 400)
    told = fitted.predict(rows, SOLOS)
    covered = np.abs(told.norm_speed - rows.norm_speed) <= NORMAL * told.sd
    assert 0.84 <= covered.mean() <= 0.96
    loud = np.array([NOISE[name] > 0.03 for name in rows.victim])
    assert told.sd[loud].mean() > 2.0 * told.sd[~loud].mean()
    exact = rows_of_mixes(drawn(np.random.default_rng(2), 200, most=4), crowded)
    wrong = np.abs(fitted.predict(exact, SOLOS).norm_speed - exact.norm_speed)
    assert wrong.mean() < 0.25 * np.abs(exact.norm_speed - exact.norm_speed.mean()).mean()


def test_jobs_and_gpu_types_never_met_are_told_with_wider_intervals(fitted):
    rows = noisy_rows(0, 250)
    new = with_model(rows, "dog")
    told = model_of(rows.take(~new)).predict(rows, SOLOS)
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
        told = [model_of(rows, seed, steps=20).predict(asked, SOLOS) for seed in (3, 3, 4)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(told[0].norm_speed, told[1].norm_speed)
    np.testing.assert_array_equal(told[0].sd, told[1].sd)
    assert not np.allclose(told[0].norm_speed, told[2].norm_speed)


def test_jobs_alone_can_be_fitted_and_one_mix_is_too_few():
    alone = [(name,) for name in NAMES]
    rows = rows_of_mixes(
        alone, lambda name, _, share: min(1.0, share / UTIL[name]), shares=(0.1, 0.3, 0.5)
    )
    told = model_of(rows).predict(rows, SOLOS).norm_speed
    assert np.corrcoef(told, rows.norm_speed)[0, 1] > 0.9
    with pytest.raises(PhysicsError, match=r"1 mix of jobs"):
        model_of(rows_of_mixes([NAMES[:3], NAMES[:3]], crowded), steps=1)


def test_members_leave_out_whole_mixes_and_whole_models():
    rows = noisy_rows(0, 60)
    encoder = RowEncoder(rows, SOLOS)
    encoded = encoder.encode(rows, SOLOS)
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
