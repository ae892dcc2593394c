"""Estimators by hand-worked values; those that learn from finished runs see no future."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interference.duration_forest import RandomForestEstimator
from sim.errors import TraceError
from sim.traces import estimators
from sim.traces.trace import Trace
from tests.traces.trace_samples import trace_of

FOREST = {
    "trees": 10, "min_leaf": 3, "features_frac": 0.5, "refit_jobs": 25, "first_jobs": 20,
    "train_jobs": 1000, "smearing": False, "gittins": False, "prior_s": 100.0,
}  # fmt: skip


def estimated(estimator, trace: Trace) -> list[float]:
    return estimator.estimate(trace, np.random.default_rng(0)).tolist()


# Job:        0   1   2   3   4   5   6      group g runs for 10, 20, 60 s; they finish at 10, 21,
SUBMIT_S = [0, 1, 12, 25, 80, 80, 81]  # 72. Job 4 knows all three, job 3 two of them, job 2 one.
DURATION_S = [10, 20, 60, 5, 7, 9, 3]
GROUPS = "gggghkg"
USERS = "aaaaabb"


def test_the_last_run_to_finish_counts():
    trace = trace_of(SUBMIT_S, DURATION_S, group=GROUPS, user=USERS)
    # 0, 1: nobody has finished. 4: user a's median of 5, 10, 20, 60. 5: b has none, all have.
    assert estimated(estimators.LastOfGroup(prior_s=600.0), trace) == [600, 600, 10, 20, 15, 15, 60]


def test_the_median_of_all_runs():
    trace = trace_of(SUBMIT_S, DURATION_S, group=GROUPS, user=USERS)
    # Job 3 finishes at 30, so job 6 knows 10, 20, 60 and 5.
    assert estimated(estimators.GroupMedian(prior_s=600.0), trace) == [600, 600, 10, 15, 15, 15, 15]


def test_a_run_that_finishes_at_the_submission_is_not_known_yet():
    trace = trace_of([0, 10, 10.5], [10, 0, 4], group="ggg")
    assert estimated(estimators.LastOfGroup(prior_s=1.0), trace) == [1, 1, 0]


def test_without_groups_owner_and_gang_stand_in():
    plain = {"submit_s": range(4), "duration_s": [1] * 4, "num_gpus": [1, 1, 2, 1]}
    assert estimators.group_keys(trace_of(**plain, group="abca")).tolist() == [0, 1, 2, 0]
    by_user = estimators.group_keys(trace_of(**plain, user="xxxy", vc="vvvv"))
    assert [len({int(by_user[0]), int(by_user[j])}) for j in (1, 2, 3)] == [1, 2, 2]
    by_vc = estimators.group_keys(trace_of(**plain, vc="vvvw"))
    assert [len({int(by_vc[0]), int(by_vc[j])}) for j in (1, 2, 3)] == [1, 2, 2]
    by_gang = estimators.group_keys(trace_of(**plain))
    assert [len({int(by_gang[0]), int(by_gang[j])}) for j in (1, 2, 3)] == [1, 2, 1]


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_the_running_median_is_the_median(values):
    running = estimators.RunningMedian()
    for value in values:
        running.add(value)
    assert running.median == pytest.approx(np.median(values))


def random_trace(jobs: int, seed: int) -> Trace:
    """Half the jobs are runs of 20 groups whose durations differ by 5 %."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(jobs) < 0.5, rng.integers(20, size=jobs), 1000 + np.arange(jobs))
    usual_s = np.exp(np.random.default_rng(9).normal(4.0, 1.5, 1000 + jobs))
    return trace_of(
        np.cumsum(rng.exponential(30.0, jobs)),
        usual_s[group] * np.exp(0.05 * rng.standard_normal(jobs)), group=map(str, group),
        user=map(str, rng.integers(5, size=jobs)), num_gpus=rng.choice([1, 2, 4], jobs),
    )  # fmt: skip


ESTIMATORS = {
    "last": estimators.LastOfGroup(prior_s=60.0),
    "median": estimators.GroupMedian(prior_s=60.0),
    "forest": RandomForestEstimator(**FOREST),
    "gittins": RandomForestEstimator(**{**FOREST, "gittins": True}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_finishes_later_changes_nothing(name: str):
    trace, cut = random_trace(150, 1), 90
    later = trace.submit_s + trace.duration_s >= trace.submit_s[cut]
    other = replace(
        trace, duration_s=np.where(later, 10.0 * trace.duration_s + 1e4, trace.duration_s)
    )
    estimate_s = estimated(ESTIMATORS[name], trace)
    assert estimated(ESTIMATORS[name], other)[: cut + 1] == estimate_s[: cut + 1]
    assert np.isfinite(estimate_s).all()
    assert min(estimate_s) >= 0
    assert estimated(ESTIMATORS[name], trace) == estimate_s
    assert ESTIMATORS[name].information == "predicted"


@pytest.mark.parametrize("name", ["last", "median", "forest"])
def test_runs_of_known_groups_are_predicted_closely(name: str):
    trace = random_trace(400, 2)
    seen = estimators.past_of(trace, estimators.group_keys(trace)).count > 0
    seen[:200] = False
    error = np.log(np.array(estimated(ESTIMATORS[name], trace)) / trace.duration_s)
    assert seen.sum() > 50
    assert np.median(np.abs(error[seen])) < 0.1
    assert np.median(np.abs(error[~seen])) > 0.5


def test_the_forest_learns_what_medians_cannot():
    # New groups every time, but the gang says it all: 100 s or 10,000 s.
    rng = np.random.default_rng(3)
    gang = rng.choice([1, 4], 300)
    trace = trace_of(
        np.arange(300) * 1000.0, np.where(gang == 1, 100.0, 10_000.0),
        group=map(str, range(300)), num_gpus=gang,
    )  # fmt: skip

    def right(estimator) -> float:
        error = np.abs(np.log(np.array(estimated(estimator, trace)) / trace.duration_s))
        return float((error[100:] < np.log(1.5)).mean())

    assert right(RandomForestEstimator(**{**FOREST, "trees": 30, "features_frac": 1.0})) > 0.95
    assert right(ESTIMATORS["median"]) < 0.7


def test_smearing_predicts_means_of_heavy_tails():
    rng = np.random.default_rng(5)
    trace = trace_of(
        np.arange(600) * 1e5, np.exp(rng.normal(5.0, 1.5, 600)), group=map(str, range(600))
    )

    def promised(**changed) -> float:
        estimator = RandomForestEstimator(**{**FOREST, "min_leaf": 30, **changed})
        return sum(estimated(estimator, trace)[100:]) / float(trace.duration_s[100:].sum())

    assert promised() < 0.6
    assert promised(smearing=True) == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize(
    ("short_s", "long_s", "work_s"),
    # Stopped after the short time half have finished: 10 / 0.5. Or run to the end: (10 + 12) / 2.
    [(10.0, 1000.0, 20.0), (10.0, 12.0, 11.0)],
)
def test_gittins_predicts_the_least_work_a_completion(short_s, long_s, work_s):
    rng = np.random.default_rng(6)
    duration_s = np.where(rng.random(1000) < 0.5, short_s, long_s)
    trace = trace_of(np.arange(1000) * 1e5, duration_s, group=map(str, range(1000)))
    forest = RandomForestEstimator(
        **{**FOREST, "trees": 30, "min_leaf": 300, "first_jobs": 900, "gittins": True}
    )
    assert np.median(estimated(forest, trace)[900:]) == pytest.approx(work_s, rel=0.1)


def test_what_was_predicted_once_is_not_predicted_again():
    """A window is read anew for each scheduler, number of agents and cell of a table."""
    fits: list[int] = []

    @dataclass(frozen=True, kw_only=True)
    class Counting(RandomForestEstimator):
        def _fitted(self, features, target, seed):
            fits.append(seed)
            return super()._fitted(features, target, seed)

    trace = random_trace(150, 1)
    first = estimated(Counting(**FOREST), trace)
    fitted = len(fits)
    assert estimated(Counting(**FOREST), replace(trace)) == first
    assert len(fits) == fitted > 0
    later = replace(trace, duration_s=trace.duration_s + 1.0)
    assert estimated(Counting(**FOREST), later) != first
    assert estimated(Counting(**{**FOREST, "trees": 4}), trace) != first
    assert len(fits) > 2 * fitted


def test_means_and_work_a_completion_are_not_both_predicted():
    with pytest.raises(TraceError, match=r"smearing and .*gittins are both true"):
        RandomForestEstimator(**{**FOREST, "smearing": True, "gittins": True})


def test_features_are_those_named_and_finite():
    trace = random_trace(60, 4)
    features = estimators.recurrence_features(trace, 100.0)
    assert features.shape == (60, len(estimators.NAMES))
    assert np.isfinite(features).all()
    at = dict(zip(estimators.NAMES, features.T, strict=True))
    assert at["group_last"][0] == pytest.approx(np.log(100.0))
    assert at["gang"].tolist() == np.log(trace.num_gpus).tolist()
    assert set(at["weekday"]) <= set(range(7))
    count = estimators.past_of(trace, estimators.group_keys(trace)).count
    assert np.expm1(at["group_count"]) == pytest.approx(count)


NO_SPAN = (0.0, -1.0, float("nan"))
BAD = [
    *((estimators.NoisyEstimator, "sigma", value) for value in (-0.1, float("nan"), float("inf"))),
    *((estimators.LimitEstimator, "unlimited_s", value) for value in (*NO_SPAN, True)),
    *((kind, "prior_s", value) for kind in (estimators.LastOfGroup, estimators.GroupMedian)
      for value in (*NO_SPAN, float("inf"))),
    *((partial(RandomForestEstimator, **FOREST), key, value) for key, value in (
        ("trees", 0), ("min_leaf", 1.5), ("refit_jobs", 0), ("first_jobs", -1),
        ("train_jobs", 0), ("features_frac", 0.0), ("features_frac", 1.1), ("prior_s", 0.0))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "key", "value"), BAD)
def test_bad_values_are_refused(made, key, value):
    with pytest.raises(TraceError, match=rf"estimator\.{key} is {value}"):
        made(**{key: value})


def made(jobs: int) -> Trace:
    times_s = np.linspace(0.0, 1000.0, jobs)
    return trace_of(times_s, times_s)


def test_none_predicts_nothing_and_the_oracle_knows_and_changes_nothing() -> None:
    trace = made(3)
    assert np.isnan(estimated(estimators.NoEstimator(), trace)).all()
    estimate_s = estimators.OracleEstimator().estimate(trace, np.random.default_rng(0))
    estimate_s[:] = -1
    assert trace.duration_s.tolist() == [0.0, 500.0, 1000.0]


def test_noise_is_log_normal_of_the_given_sigma_and_seeded() -> None:
    trace, noisy = made(20_000), estimators.NoisyEstimator(sigma=1.0)
    estimate_s = noisy.estimate(trace, np.random.default_rng(1))
    error = np.log(estimate_s[1:] / trace.duration_s[1:])
    assert error.mean() == pytest.approx(0.0, abs=0.03)
    assert error.std() == pytest.approx(1.0, abs=0.03)
    assert estimate_s[0] == 0.0
    assert estimate_s.tobytes() == noisy.estimate(trace, np.random.default_rng(1)).tobytes()


def test_a_larger_sigma_scales_the_same_errors() -> None:
    trace = made(50)
    small, large = (
        np.log(estimators.NoisyEstimator(sigma=sigma).estimate(trace, np.random.default_rng(2))[1:])
        - np.log(trace.duration_s[1:])
        for sigma in (0.5, 1.0)
    )
    assert np.allclose(2 * small, large)


def test_limits_are_what_users_asked_for_and_the_longest_where_none_did() -> None:
    trace = replace(made(3), limit_s=np.array([60.0, np.inf, 3600.0]))
    assert estimated(estimators.LimitEstimator(unlimited_s=None), trace) == [60, 3600, 3600]
    assert estimated(estimators.LimitEstimator(unlimited_s=9e4), trace) == [60, 9e4, 3600]


@pytest.mark.parametrize("limit_s", [None, np.full(3, np.inf)])
def test_a_trace_without_limits_is_refused(limit_s) -> None:
    with pytest.raises(TraceError, match=r"no job has a time limit.*choose another estimator"):
        estimated(estimators.LimitEstimator(unlimited_s=None), replace(made(3), limit_s=limit_s))
