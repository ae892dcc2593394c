"""Bytes are recovered from the ratios they cause."""

import numpy as np

from sim.physics.measured import fit_sync_bytes, spread_ratio


def test_known_bytes_are_recovered_within_the_grid():
    compute_s = np.array([[0.05, 0.02], [0.2, 0.1]])
    truth = np.array([3e7, 1e8])
    ratio = spread_ratio(compute_s, truth[:, None])
    fitted = fit_sync_bytes(compute_s=compute_s, ratio=ratio, weight=np.array([1.0, 1.0]))
    np.testing.assert_allclose(fitted, truth, rtol=0.003)


def test_two_servers_by_hand():
    # 125 MB: 0.1 s between servers at 10 Gb/s, 0.01 s inside at 100 Gb/s, for gangs of 2, x 1;
    # x 3/2 for 4 and x 7/4 for 8.
    ratios = [(0.1 + 0.01 * k) / (0.1 + 0.1 * k) for k in (1.0, 1.5, 1.75)]
    ratio = spread_ratio(np.array(0.1), np.array(1.25e8))
    np.testing.assert_allclose(ratio, np.prod(ratios) ** (1 / 3))


def test_no_cost_is_no_bytes_and_unmeasured_is_the_median():
    compute_s = np.full((4, 1), 0.1)
    ratio = np.array([[1.1], [0.5], [0.6], [np.nan]])
    fitted = fit_sync_bytes(compute_s=compute_s, ratio=ratio, weight=np.array([1.0]))
    assert fitted[0] == 0.0
    assert fitted[1] > fitted[2] > 0.0
    assert fitted[3] == fitted[2]


def test_a_type_of_weight_zero_is_ignored():
    compute_s = np.full((1, 2), 0.1)
    fits = [
        fit_sync_bytes(
            compute_s=compute_s, ratio=np.array([[0.6, other]]), weight=np.array([1.0, 0.0])
        )
        for other in (0.3, 0.9)
    ]
    assert fits[0] == fits[1]
