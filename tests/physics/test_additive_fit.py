"""Additive fit and memory rule on made-up numbers."""

import numpy as np

from sim.physics.mix_table import fit_additive, probably_infeasible
from sim.physics.shipped_files import NoInterference, ShippedProfiles


def test_exact_terms_are_recovered_and_unseen_cells_filled():
    victim_term, aggressor_term = np.array([0.1, -0.3, 0.2]), np.array([-0.2, 0.0, 0.1])
    truth = -0.5 + victim_term[:, None] + aggressor_term[None, :]
    victim, aggressor = np.nonzero(~np.eye(3, dtype=bool))  # the diagonal was never measured
    fit = fit_additive(
        victim=victim,
        aggressor=aggressor,
        norm=np.exp(truth[victim, aggressor]),
        profiles=3,
    )
    np.testing.assert_allclose(fit.log_norm(), truth, atol=1e-9)
    assert fit.residual_sd < 1e-9


def test_a_profile_never_seen_is_average():
    fit = fit_additive(
        victim=np.array([0, 1]), aggressor=np.array([1, 0]), norm=np.array([0.5, 0.5]), profiles=3
    )
    np.testing.assert_allclose(np.exp(fit.log_norm()[2]), 0.5)


def test_memory_rule_blames_the_profile_that_mostly_fails():
    tried = np.ones((4, 4), np.bool_)
    failed = np.zeros((4, 4), np.bool_)
    failed[3, :] = failed[:, 3] = True  # profile 3 fails with all, so each other fails 1 of 4
    infeasible = probably_infeasible(tried, failed)
    assert infeasible[3].all()
    assert infeasible[:, 3].all()
    assert not infeasible[:3, :3].any()


def test_no_interference_is_one_everywhere():
    table = NoInterference().pair_table(ShippedProfiles())
    assert table.source == "none"
    assert np.all(table.slowdown == 1.0)
    assert table.feasible.all()
