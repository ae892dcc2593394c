"""Tables of mixes: columns, what building enforces, the power law, and how they are read."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.laws import NO_COST, hit_of, joining_cost, slow_in
from sim.physics.mix_table import (
    MixTable,
    PairSum,
    PairTable,
    PowerLaw,
    Slowing,
    column_of,
    columns,
    empty_tenants,
    mix_table,
    put_tenant,
    slowing_of,
)


def pairs_of(excess: FloatArray) -> PairTable:
    """(P, P) excesses on one GPU type."""
    table = 1.0 + np.asarray(excess)[None]
    return PairTable(table, np.ones(table.shape, dtype=np.bool_), "hand")


def random_pairs(profiles: int, seed: int) -> PairTable:
    rng = np.random.default_rng(seed)
    return pairs_of(rng.random((profiles, profiles)) * (rng.random((profiles, profiles)) < 0.7))


def random_mixes(pairs: PairTable, most: int, seed: int) -> MixTable:
    """Predictions that know nothing of pairs, of parts, or of the floor of 1."""
    rng = np.random.default_rng(seed)
    return mix_table(pairs, most, lambda *asked: 3.0 * rng.random(len(asked[2])))


def slow(tables: Slowing, *tenants: tuple[int, int]) -> float:
    """Slow-down of the first of tenants (profile, thousandths)."""
    rows = empty_tenants(len(tenants))
    for k, (profile, milli) in enumerate(tenants):
        put_tenant(rows, k, profile, milli)
    return slow_in(tables, 0, rows, len(tenants), 0)


def test_a_newcomer_counts_what_tenants_cost_each_other_already():
    """A and B slow each other by 0.6, C slows them by 1.5; they slow C by 0.5 each."""
    slowing = slowing_of(pairs_of(np.array([[0.0, 0.6, 1.5], [0.6, 0, 1.5], [0.5, 0.5, 0]])), None)
    rows, fits = empty_tenants(3), np.ones((1, 3, 3), dtype=np.bool_)
    for tenant in range(3):
        put_tenant(rows, tenant, tenant, 1000)
    together = 2 / (1 + 0.6 + 1.5) + 1 / (1 + 0.5 + 0.5)
    assert joining_cost(slowing, fits, 0, rows, 2, together - 0.001) == pytest.approx(2.0 * 2.5)
    assert joining_cost(slowing, fits, 0, rows, 2, together + 0.001) == NO_COST


def test_every_multiset_has_its_own_column():
    for profiles, most in ((1, 2), (3, 2), (4, 3), (5, 4)):
        seen: list[int] = []
        for size in range(1, most + 1):
            mixes = list(combinations_with_replacement(range(profiles), size))
            seen += column_of(profiles, np.array(mixes)).tolist()
        assert sorted(seen) == list(range(columns(profiles, most)))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_predicted_no_mix_is_faster_than_a_part_of_it(seed: int):
    pairs = random_pairs(4, seed)
    table = random_mixes(pairs, 3, seed)
    assert table.slowdown.min() == 1.0
    np.testing.assert_array_equal(table.pairs(), pairs.slowdown)
    for mix in combinations_with_replacement(range(4), 3):
        whole = table.slowdown[0, :, column_of(4, np.array([mix]))[0]]
        for part in {mix[:2], mix[1:], (mix[0], mix[2])}:
            assert np.all(whole >= table.slowdown[0, :, column_of(4, np.array([part]))[0]])


def test_a_table_that_speeds_up_or_is_too_large_is_refused():
    table = random_mixes(random_pairs(3, 0), 2, 0)
    faster = table.slowdown.copy()
    faster[0, 1, column_of(3, np.array([[0, 2]]))] = 1.0
    faster[0, 1, column_of(3, np.array([[0]]))] = 1.5
    with pytest.raises(PhysicsError, match="faster than a part"):
        MixTable(faster, 2)
    with pytest.raises(PhysicsError, match="needs 9 columns"):
        MixTable(table.slowdown[:, :, :-1], 2)
    with pytest.raises(PhysicsError, match="not finite"):
        mix_table(random_pairs(3, 0), 2, lambda *asked: np.full(len(asked[2]), np.nan))
    words = r"take 106\d{3} MiB.*most_aggressors=2, or use fewer"
    with pytest.raises(PhysicsError, match=words):  # before anything is predicted
        mix_table(pairs_of(np.zeros((200, 200))), 4, lambda *_: pytest.fail("it was filled"))


def test_power_law_by_hand():
    # Victim 0: excess 3 beside profile 1, 4 beside 2. Both at once: 5 with power 2, 7 with 1.
    pairs = pairs_of(np.array([[0.0, 3.0, 4.0], [0, 0, 0], [0, 0, 0]]))
    law = PowerLaw(power=2.0, most_aggressors=3, max_tenants=4)
    tables = slowing_of(pairs, law.table(pairs))
    assert slow(tables, (0, 1000), (2, 1000), (1, 1000)) == pytest.approx(6.0)
    assert slow(tables, (0, 1000), (1, 1000)) == 4.0
    assert slow(tables, (0, 1000), (1, 1000), (0, 1000), (1, 1000)) == pytest.approx(1 + 18**0.5)
    assert slow(slowing_of(pairs, None), (0, 1000), (2, 1000), (1, 1000)) == 8.0


def test_power_1_and_gpus_of_two_need_no_table():
    pairs = random_pairs(3, 1)
    assert PairSum().table(pairs) is None
    assert PowerLaw(power=1.0, most_aggressors=3, max_tenants=4).table(pairs) is None
    assert PowerLaw(power=2.0, most_aggressors=3, max_tenants=2).table(pairs) is None
    assert PowerLaw(power=2.0, most_aggressors=3, max_tenants=3).table(pairs).most_aggressors == 2
    for power in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(PhysicsError, match=r"mixes\.power"):
            PowerLaw(power=power, most_aggressors=3, max_tenants=4)
    with pytest.raises(PhysicsError, match=r"mixes\.most_aggressors is 1"):
        PowerLaw(power=2.0, most_aggressors=1, max_tenants=4)
    with pytest.raises(PhysicsError, match="max_tenants is 61"):
        PowerLaw(power=2.0, most_aggressors=3, max_tenants=61)


@pytest.mark.parametrize("power", [0.5, 1.000001, 3.0, 400.0])
def test_a_mix_by_power_lies_between_its_worst_pair_and_infinity(power: float):
    pairs = random_pairs(5, 2)
    table = PowerLaw(power=power, most_aggressors=2, max_tenants=4).table(pairs)
    for first, second in combinations_with_replacement(range(5), 2):
        mix = table.slowdown[0, :, column_of(5, np.array([[first, second]]))[0]] - 1.0
        one, other = pairs.slowdown[0, :, first] - 1.0, pairs.slowdown[0, :, second] - 1.0
        assert np.all(mix >= np.maximum(one, other) - 1e-12)
        if power > 1.0:
            assert np.all(mix <= one + other + 1e-12)


def test_a_mix_beyond_the_table_by_hand():
    # Pairs 1, 2, 3 and a table of two: 1+2 -> 6 (twice the sum), 1+3 -> 4, 2+3 -> 5 (the sums).
    # All three: sum 6 times the largest ratio, 2.
    pairs = pairs_of(np.array([[0.0, 1.0, 2.0, 3.0], *[[0.0] * 4] * 3]))
    told = {(1, 2): 6.0, (1, 3): 4.0, (2, 3): 5.0}

    def predict(kind: int, victim: int, mixes: IntArray) -> FloatArray:
        del kind
        return np.array([1.0 + told.get(tuple(mix), 0.0) * (victim == 0) for mix in mixes.tolist()])

    tables = slowing_of(pairs, mix_table(pairs, 2, predict))
    assert slow(tables, (0, 1000), (3, 1000), (1, 1000), (2, 1000)) == pytest.approx(13.0)


def test_parts_of_a_gpu_by_hand():
    # Pairs 1 and 2, both at once 2.5. Profile 1 has 0.4 of the GPU, profile 2 has 0.3: for 0.3 both
    # are there, for 0.1 profile 1 alone: 0.3 * 2.5 + 0.1 * 1.
    pairs = pairs_of(np.array([[0.0, 1.0, 2.0], [0, 0, 0], [0, 0, 0]]))
    tables = slowing_of(pairs, mix_table(pairs, 2, lambda *asked: np.full(len(asked[2]), 3.5)))
    assert slow(tables, (0, 300), (1, 400), (2, 300)) == pytest.approx(1.85)
    # Where pairs add up, parts do as without a table: 1 + 0.4 * 1 + 0.3 * 2.
    sums = PowerLaw(power=1.0 + 1e-12, most_aggressors=2, max_tenants=3).table(pairs)
    assert slow(slowing_of(pairs, sums), (0, 300), (1, 400), (2, 300)) == pytest.approx(2.0)
    assert slow(slowing_of(pairs, None), (0, 300), (1, 400), (2, 300)) == pytest.approx(2.0)


@pytest.mark.parametrize("most", [2, 3])
def test_one_more_tenant_or_a_larger_part_never_speeds_up(most: int):
    rng = np.random.default_rng(most)
    pairs = random_pairs(4, most)
    tables = slowing_of(pairs, random_mixes(pairs, most, most))
    beyond = 0
    for _ in range(300):
        count = int(rng.integers(2, 7))
        tenants = empty_tenants(7)
        for k in range(8):
            put_tenant(tenants, k, int(rng.integers(4)), int(rng.choice([1000, 700, 300, 1])))
        before = slow_in(tables, 0, tenants, count, 0)
        after = slow_in(tables, 0, tenants, count + 1, 0)
        assert after >= before - 1e-12 and before >= 1.0
        assert hit_of(tables, 0, tenants, count + 1, 0) == pytest.approx(1.0 + after - before)
        put_tenant(tenants, count, tenants[2 * count], 1000)
        assert slow_in(tables, 0, tenants, count + 1, 0) >= after - 1e-12
        beyond += count > most
    assert beyond > 50


def test_the_order_of_a_crowd_says_nothing():
    pairs = random_pairs(4, 5)
    tables = slowing_of(pairs, random_mixes(pairs, 3, 5))
    told = {slow(tables, (1, 1000), *((each, 1000) for each in crowd))
            for crowd in ((0, 3, 2), (2, 0, 3))}  # fmt: skip
    assert len(told) == 1
