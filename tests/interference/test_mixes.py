"""Mixes without their dummies, held out whole."""

import numpy as np
import pytest

from interference.evaluation.judge import held_out, pair_folds
from interference.models.linear import CrowdModel
from interference.readers.miso import DUMMY, drawn_mixes, mig_rows, mps_rows, rows_of_miso, tenants
from interference.rows import CoRows, mix_numbers, stacked_rows
from sim.errors import PhysicsError
from tests.interference.mix_worlds import NAMES, crowded, drawn, rows_of_mixes, solos_of_mixes

LEVELS = (1.0, 0.5, 0.14)
SOLOS = solos_of_mixes()
A, B, C = NAMES[:3]


def mixes_of(seed: int = 0, *, count: int = 60) -> CoRows:
    return rows_of_mixes(drawn(np.random.default_rng(seed), count, most=5), crowded)


def test_dummies_are_no_tenants():
    mixes = [(A, B, *[DUMMY] * 5), (A, A, C, *[DUMMY] * 4)]
    rows = mps_rows(rows_of_mixes(mixes, lambda *_: 0.5, shares=LEVELS, relative_to="best"))
    assert len(rows) == (2 + 3) * 3
    assert DUMMY not in set(rows.victim)
    assert rows.aggressors[0] == (B,)
    assert set(rows.aggressors[6:]) == {(A, C), (A, A)}
    assert tenants(rows).tolist() == [2] * 6 + [3] * 9


def test_slices_and_mixes_are_told_apart():
    mixes = rows_of_mixes([(A, B)], crowded, shares=LEVELS, relative_to="best")
    slices = rows_of_mixes([(A,)], lambda *_: 0.5, shares=(1 / 7, 2 / 7))
    slices = CoRows(**{**vars(slices), "sharing": np.full(2, "mig", dtype=np.object_)})
    both = stacked_rows([mixes, slices])
    assert len(mps_rows(both)) == 6
    assert mig_rows(both).share.tolist() == [1 / 7, 2 / 7]


def test_a_draw_is_of_whole_mixes_and_as_large_as_may_be():
    rows = mixes_of()
    mix = mix_numbers(rows)
    at = drawn_mixes(rows, 50, np.random.default_rng(0))
    assert 50 - np.bincount(mix).max() < len(at) <= 50
    assert not set(mix[at]) & set(np.delete(mix, at))
    np.testing.assert_array_equal(at, drawn_mixes(rows, 50, np.random.default_rng(0)))
    assert len(drawn_mixes(rows, 10_000, np.random.default_rng(0))) == len(rows)
    with pytest.raises(PhysicsError, match="most_rows is 0"):
        drawn_mixes(rows, 0, np.random.default_rng(0))


def test_every_row_is_judged_once_by_a_fold_without_its_mix():
    rows = mixes_of()
    held = held_out(CrowdModel(), rows, SOLOS, pair_folds(rows, 4, np.random.default_rng(0)))
    assert sorted(held.measured) == sorted(rows.norm_speed)
    numbers, counts = np.unique(tenants(rows), return_counts=True)
    parts = held.groupby(held.models.str.len())
    assert parts.size().to_dict() == dict(zip(numbers, counts, strict=True))


def test_the_crowd_has_a_mean_by_tenants_and_share():
    speed = {(1, 1.0): 0.9, (1, 0.5): 0.8, (2, 1.0): 0.6, (2, 0.5): 0.7}
    far = {A: 0.05, B: -0.05}
    rows = rows_of_mixes(
        [(A,), (B,), (A, B)],
        lambda victim, others, share: speed[1 + len(others), share] + far[victim],
        shares=(1.0, 0.5),
    )
    model = CrowdModel()
    model.fit(rows, SOLOS)
    told = model.predict(rows, SOLOS)
    right = [speed[each] for each in zip(tenants(rows).tolist(), rows.share.tolist(), strict=True)]
    np.testing.assert_allclose(told.norm_speed, right)
    np.testing.assert_allclose(told.sd, 0.05)
    new = model.predict(rows_of_mixes([(A, B, C)], crowded), SOLOS)
    np.testing.assert_allclose(new.norm_speed, rows.norm_speed.mean())


def test_real_mixes(real_data):
    rows, _ = rows_of_miso(real_data)
    mixes, slices = mps_rows(rows), mig_rows(rows)
    assert (len(mixes), len(slices)) == (25023, 113)
    assert sorted(set(tenants(mixes))) == [1, 2, 3, 4, 5, 6, 7]
