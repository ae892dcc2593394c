"""The estimators that need no learning."""

from dataclasses import replace

import numpy as np
import pytest

from sim.errors import TraceError
from sim.traces.estimators import LimitEstimator, NoEstimator, NoisyEstimator, OracleEstimator
from sim.traces.trace import Trace
from tests.traces.trace_samples import trace_of


def made(jobs: int) -> Trace:
    times_s = np.linspace(0.0, 1000.0, jobs)
    return trace_of(times_s, times_s)


def test_none_predicts_nothing() -> None:
    assert np.isnan(NoEstimator().estimate(made(3), np.random.default_rng(0))).all()
    assert NoEstimator().information == "none"


def test_the_oracle_knows_and_cannot_be_used_to_change_the_trace() -> None:
    trace = made(3)
    estimate_s = OracleEstimator().estimate(trace, np.random.default_rng(0))
    estimate_s[:] = -1
    assert trace.duration_s.tolist() == [0.0, 500.0, 1000.0]
    assert OracleEstimator().information == "oracle"


def test_noise_is_log_normal_of_the_given_sigma_and_seeded() -> None:
    trace, noisy = made(20_000), NoisyEstimator(sigma=1.0)
    estimate_s = noisy.estimate(trace, np.random.default_rng(1))
    error = np.log(estimate_s[1:] / trace.duration_s[1:])
    assert error.mean() == pytest.approx(0.0, abs=0.03)
    assert error.std() == pytest.approx(1.0, abs=0.03)
    assert estimate_s[0] == 0.0
    assert estimate_s.tobytes() == noisy.estimate(trace, np.random.default_rng(1)).tobytes()
    assert noisy.information == "predicted"


def test_a_larger_sigma_scales_the_same_errors() -> None:
    trace = made(50)
    small, large = (
        np.log(NoisyEstimator(sigma=sigma).estimate(trace, np.random.default_rng(2))[1:])
        - np.log(trace.duration_s[1:])
        for sigma in (0.5, 1.0)
    )
    assert np.allclose(2 * small, large)


@pytest.mark.parametrize("sigma", [-0.1, float("nan"), float("inf")])
def test_an_impossible_sigma(sigma: float) -> None:
    with pytest.raises(TraceError, match=r"estimator\.sigma is"):
        NoisyEstimator(sigma=sigma)


def test_limits_are_what_users_asked_for_and_the_longest_where_none_did() -> None:
    trace = replace(made(3), limit_s=np.array([60.0, np.inf, 3600.0]))
    rng = np.random.default_rng(0)
    assert LimitEstimator(unlimited_s=None).estimate(trace, rng).tolist() == [60, 3600, 3600]
    assert LimitEstimator(unlimited_s=9e4).estimate(trace, rng).tolist() == [60, 9e4, 3600]
    assert LimitEstimator(unlimited_s=None).information == "limit"


@pytest.mark.parametrize("limit_s", [None, np.full(3, np.inf)])
def test_a_trace_without_limits_is_refused(limit_s) -> None:
    with pytest.raises(TraceError, match=r"no job has a time limit.*choose another estimator"):
        LimitEstimator(unlimited_s=None).estimate(
            replace(made(3), limit_s=limit_s), np.random.default_rng(0)
        )


@pytest.mark.parametrize("unlimited_s", [0.0, -1.0, float("nan"), True])
def test_an_impossible_limit(unlimited_s: float) -> None:
    with pytest.raises(TraceError, match=r"estimator\.unlimited_s is"):
        LimitEstimator(unlimited_s=unlimited_s)
