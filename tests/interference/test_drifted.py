"""A truth that has drifted away from the one that models were fitted on."""

import numpy as np
import pytest

from interference.online import DriftedInterference
from sim.arrays import FloatArray
from sim.errors import PhysicsError
from sim.physics.shipped_files import NoInterference, ShippedInterference, ShippedProfiles


def test_factors_are_a_victim_s_times_an_aggressor_s():
    catalogue, model = ShippedProfiles(), ShippedInterference()
    before = model.pair_table(catalogue)
    after = DriftedInterference(model=model, sigma=0.5, steps=1, seed=3).pair_table(catalogue)
    some = before.slowdown > 1.0
    assert np.array_equal(after.slowdown > 1.0, some)
    assert np.array_equal(after.feasible, before.feasible)
    excess = [np.where(some, table.slowdown - 1, 1) for table in (after, before)]
    ratio = np.log(excess[0] / excess[1])
    for kind in range(len(catalogue.gpu_types)):
        rows = some[kind].all(axis=1)
        block = ratio[kind][rows]
        centred = block - block.mean(axis=0) - block.mean(axis=1)[:, None] + block.mean()
        assert np.abs(centred).max() < 1e-9
    assert ratio[some].std() == pytest.approx(0.5 * np.sqrt(2), rel=0.25)
    assert after.source == "drifted shipped"


def test_steps_go_on_from_one_another():
    catalogue, model = ShippedProfiles(), ShippedInterference()

    def ln_excess(steps: int) -> FloatArray:
        drift = DriftedInterference(model=model, sigma=0.3, steps=steps, seed=0)
        slowdown = drift.pair_table(catalogue).slowdown
        return np.log(np.maximum(slowdown - 1.0, 1e-12))

    far = [np.abs(ln_excess(steps) - ln_excess(0)).mean() for steps in (1, 4, 16)]
    assert 0 < far[0] < far[1] < far[2]
    assert np.abs(ln_excess(5) - ln_excess(4)).mean() < 1.5 * far[0]


def test_no_step_is_no_drift():
    catalogue, model = ShippedProfiles(), ShippedInterference()
    still = DriftedInterference(model=model, sigma=0.3, steps=0, seed=0).pair_table(catalogue)
    assert still.source == "shipped"
    assert np.array_equal(still.slowdown, model.pair_table(catalogue).slowdown)


@pytest.mark.parametrize(("sigma", "steps"), [(-0.1, 1), (float("nan"), 1), (0.1, -1)])
def test_values_out_of_range_are_refused(sigma: float, steps: int):
    with pytest.raises(PhysicsError, match=r"interference\.(sigma|steps) is"):
        DriftedInterference(model=NoInterference(), sigma=sigma, steps=steps, seed=0)
