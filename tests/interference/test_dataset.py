"""Rows, files, and features."""

import numpy as np
import pytest

from interference.dataset import CSV_COLUMNS, DirectedRow, csv_rows, rows_from
from interference.features import row_features
from interference.generated import generated_rows
from sim.errors import PhysicsError
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles


def write_csv(path, *lines: str):
    path.write_text("\n".join([",".join(CSV_COLUMNS), *lines]) + "\n")
    return path


def test_csv_rows(tmp_path):
    path = write_csv(
        tmp_path / "rows.csv",
        "a100,B/8,A/16,0.2,0.1,0.5,1",
        "a100,A/16,B/8,0.1,0.2,0.75,1",
        "t4,A/16,A/16,0.4,0.4,,0",
    )
    rows = csv_rows(path)
    assert rows.profiles == ("A/16", "B/8")
    assert rows.gpu_types == ("a100", "t4")
    assert rows.pair[0] == rows.pair[1] != rows.pair[2]
    np.testing.assert_array_equal(rows.norm_speed, [0.5, 0.75, np.nan])
    assert list(rows.feasible) == [True, True, False]
    np.testing.assert_array_equal(rows.solo_s, [[0.1, 0.4], [0.2, np.nan]])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a100,A/16,B/8,0.1,0.2,fast,1", "rows.csv:2: norm_speed is 'fast'"),
        ("a100,A/16,B/8,0,0.2,0.5,1", "rows.csv:2: victim_solo_s is '0'"),
        ("a100,A,B/8,0.1,0.2,0.5,1", "rows.csv:2: victim is 'A'; expected model/batch"),
        ("a100,A/16,B/8,0.1,0.2,,1", "rows.csv:2: norm_speed is ''"),
    ],
)
def test_bad_line_is_named(tmp_path, line, message):
    with pytest.raises(PhysicsError, match=message):
        csv_rows(write_csv(tmp_path / "rows.csv", line))


def test_missing_column_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("gpu_type,victim\n")
    with pytest.raises(PhysicsError, match=r"no column 'aggressor'"):
        csv_rows(path)


def test_no_rows_is_an_error(tmp_path):
    with pytest.raises(PhysicsError, match="there are none"):
        csv_rows(write_csv(tmp_path / "rows.csv"))


def test_generated_rows_are_shipped_pairs_in_both_directions():
    rows = generated_rows(np.random.default_rng(3))
    table = ShippedInterference().pair_table(ShippedProfiles())
    assert rows.source == "generated"
    assert np.isnan(rows.norm_speed[~rows.feasible]).all()
    cells = {
        (int(t), int(a), int(b)): norm
        for t, a, b, norm in zip(
            rows.gpu_type, rows.victim, rows.aggressor, rows.norm_speed, strict=True
        )
    }
    assert len(cells) == len(rows)  # no direction twice
    for (gpu_type, victim, aggressor), norm in cells.items():
        assert (gpu_type, aggressor, victim) in cells
        if np.isfinite(norm):
            assert norm == pytest.approx(1 / table.slowdown[gpu_type, victim, aggressor])


def test_equal_seeds_give_equal_rows():
    one, two, other = (generated_rows(np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.pair, two.pair)
    assert len(one) != len(other) or not np.array_equal(one.pair, other.pair)


def test_features_swap_with_the_roles_and_do_not_read_the_answer():
    directed = [
        DirectedRow("k", "A/8", "B/4", 0.1, 0.3, 0.5, True),
        DirectedRow("k", "B/4", "A/8", 0.3, 0.1, 0.9, True),
    ]
    features = row_features(rows_from(directed, "measured"))
    half = (features.shape[1] - 1) // 2
    np.testing.assert_allclose(features[0, :half], features[1, half:-1])
    np.testing.assert_allclose(features[0, half:-1], features[1, :half])
    assert features[0, 0] == pytest.approx(np.log(0.1))
    changed = [DirectedRow("k", "A/8", "B/4", 0.1, 0.3, 0.1, True), directed[1]]
    np.testing.assert_array_equal(row_features(rows_from(changed, "measured")), features)


def test_features_are_finite_where_a_solo_time_is_unknown():
    directed = [
        DirectedRow("k", "A/8", "B/4", 0.1, 0.3, 0.5, True),
        DirectedRow("v", "A/8", "A/8", 0.05, 0.05, 0.9, True),
    ]
    rows = rows_from(directed, "measured")
    assert np.isnan(rows.solo_s[1, 1])
    assert np.isfinite(row_features(rows)).all()
