"""The shipped files follow from the data and hold no row of it."""

import numpy as np

from interference.make_shipped import infeasible_by_model, write_pairs, write_profiles
from sim.physics.gavel_files import read_pairs
from sim.physics.measured import MeasuredProfiles
from sim.physics.shipped_files import SHIPPED_DIR, shipped_rows


def test_regenerating_gives_the_shipped_files(real_data, tmp_path):
    write_profiles(MeasuredProfiles(data_dir=real_data), tmp_path)
    write_pairs(real_data, tmp_path)
    for path in sorted(SHIPPED_DIR.glob("*.csv")):
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name


def test_shipped_pairs_are_not_the_measured_ones(real_data):
    measured = {}
    for pair in read_pairs(real_data):
        if pair.feasible:
            measured[pair.gpu_type, pair.profile_a, pair.profile_b] = pair.norm_a
    errors = [
        abs(float(row["norm_speed"]) - measured[key])
        for row in shipped_rows("pairs.csv")
        if (key := (row["gpu_type"], row["victim"], row["aggressor"])) in measured
    ]
    assert len(errors) > 500
    assert np.mean(errors) > 0.05


def test_large_batches_of_the_worst_model_do_not_fit_first():
    names = ("A/8", "A/16", "B/8", "B/16")
    infeasible = infeasible_by_model(names, {"A": 0.1, "B": 0.3}, 0.3)  # 3 of 10 pairs
    assert np.argwhere(np.triu(infeasible)).tolist() == [[1, 3], [2, 3], [3, 3]]
    np.testing.assert_array_equal(infeasible, infeasible.T)
