"""The generator: reproducible, on its parameters, and as bursty as it is told to be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.studies.generated_traces import shape
from sim.errors import TraceError
from sim.traces.generator import generate
from sim.traces.processes import DurationMixture
from tests.traces.trace_samples import STEADY

ALL = DurationMixture(up_to_gang=64, weights=[1.0], mu=[5.0], sigma=[1.0])
SPEC = replace(
    STEADY, dispersion_r=0.8, noise_persistence=0.3, repeat_prob=0.1, repeat_sigma=0.1,
    durations=[ALL], longest_s=50_000.0,
)  # fmt: skip


def made(jobs: int, seed: int = 0, **changes):
    """A generated trace of `SPEC` with changes."""
    return generate(replace(SPEC, **changes), jobs, np.random.default_rng(seed), "made")


def columns(trace) -> tuple[bytes, ...]:
    """Every column as bytes."""
    texts = ["|".join(column).encode() for column in (trace.job_id, trace.user, trace.vc)]
    numbers = (trace.submit_s, trace.num_gpus, trace.duration_s)
    return (*texts, *(column.tobytes() for column in numbers))


def test_equal_seeds_give_equal_bytes_and_other_seeds_do_not() -> None:
    assert columns(made(500, seed=4)) == columns(made(500, seed=4))
    assert made(500, seed=4).submit_s.tobytes() != made(500, seed=5).submit_s.tobytes()


@given(jobs=st.integers(0, 300), seed=st.integers(0, 99), repeat=st.floats(0, 0.95))
@settings(max_examples=40, deadline=None)
def test_every_generated_trace_is_valid(jobs: int, seed: int, repeat: float) -> None:
    trace = made(jobs, seed=seed, repeat_prob=repeat)
    assert len(trace) == jobs == len(set(trace.job_id))
    assert np.all(np.diff(trace.submit_s) >= 0)
    assert np.all(trace.submit_s == np.floor(trace.submit_s))
    assert np.all((trace.duration_s >= 1) & (trace.duration_s <= 50_000))
    assert set(trace.num_gpus.tolist()) <= {1, 4, 64}


def test_rate_sizes_and_median_are_those_of_the_parameters() -> None:
    figures = shape(made(40_000, dispersion_r=5.0))
    assert figures.jobs_per_h == pytest.approx(40.0, rel=0.05)
    assert figures.size_shares == pytest.approx((0.7, 0.2, 0.0, 0.1), abs=0.01)
    assert figures.duration_s[0] == pytest.approx(np.exp(5.0), rel=0.05)
    assert figures.zero_gap_frac == pytest.approx(0.1, abs=0.02)


def test_a_smaller_dispersion_parameter_is_burstier_and_a_large_one_is_poisson() -> None:
    bursty = shape(made(20_000, dispersion_r=0.5, repeat_prob=0.0))
    smooth = shape(made(20_000, dispersion_r=1e6, repeat_prob=0.0))
    assert smooth.dispersion == pytest.approx(1.0, abs=0.2)
    assert smooth.gap_cv == pytest.approx(1.0, abs=0.1)
    assert bursty.dispersion > 20 * smooth.dispersion
    assert bursty.gap_cv > 2 * smooth.gap_cv


def test_the_hourly_dispersion_is_that_of_a_negative_binomial() -> None:
    # gamma noise of shape r over Poisson counts of mean m: variance / mean = 1 + m / r
    figures = shape(made(60_000, dispersion_r=2.0, repeat_prob=0.0, noise_persistence=0.0))
    assert figures.dispersion == pytest.approx(1 + 40 / 2.0, rel=0.15)


def test_days_and_hours_shape_the_rate() -> None:
    hours = [0.0] * 24
    hours[9] = 1.0
    trace = made(2_000, hour_factors=hours, weekday_factors=[1, 1, 1, 1, 1, 0, 0])
    busy = np.unique(trace.submit_s // 3600)
    assert set(np.diff(busy).tolist()) <= {24.0, 48.0, 72.0, 96.0, 120.0, 144.0, 168.0, 240.0}
    day = (busy - busy[0]) // 24 % 7
    assert len(set(day.tolist())) <= 5


def test_traces_begin_at_any_hour_of_the_week() -> None:
    # All jobs fall into one hour of the week, so the first job tells where a trace began.
    days, hours = [1.0] + [0.0] * 6, [1.0] + [0.0] * 23
    first_h = {
        float(made(3, seed=seed, weekday_factors=days, hour_factors=hours).submit_s[0] // 3600)
        for seed in range(30)
    }
    assert len(first_h) > 20
    assert max(first_h) < 168


def test_persistent_noise_makes_neighbouring_hours_alike() -> None:
    def neighbours(persistence: float) -> float:
        trace = made(40_000, noise_persistence=persistence, repeat_prob=0.0)
        counts = np.bincount((trace.submit_s // 3600).astype(int)).astype(float)
        return float(np.corrcoef(counts[:-1], counts[1:])[0, 1])

    assert neighbours(0.0) == pytest.approx(0.0, abs=0.15)
    assert neighbours(0.8) == pytest.approx(0.8, abs=0.15)


def test_a_repeat_is_its_predecessor_again() -> None:
    trace = made(5_000, repeat_prob=0.5, repeat_sigma=0.0)
    same = np.diff(trace.submit_s) == 0
    alike = (np.diff(trace.num_gpus) == 0) & (trace.user[1:] == trace.user[:-1])
    alike &= np.diff(trace.duration_s) == 0
    assert np.mean(same) == pytest.approx(0.5, abs=0.03)
    assert np.mean(alike[same]) > 0.95


def test_gangs_use_the_mixture_that_reaches_them() -> None:
    short = DurationMixture(up_to_gang=1, weights=[1.0], mu=[2.0], sigma=[0.0])
    long = DurationMixture(up_to_gang=64, weights=[0.5, 0.5], mu=[6.0, 8.0], sigma=[0.0, 0.0])
    trace = made(3_000, durations=[short, long], repeat_sigma=0.0)
    single = trace.num_gpus == 1
    assert set(trace.duration_s[single]) == {7.0}  # e^2
    assert set(trace.duration_s[~single]) == {403.0, 2981.0}  # e^6, e^8
    assert np.mean(trace.duration_s[~single] == 403.0) == pytest.approx(0.5, abs=0.06)


def test_owners_have_zipf_shares_and_users_belong_to_one_cluster() -> None:
    trace = made(20_000, repeat_prob=0.0)
    shares = [float(np.mean(trace.vc == f"vc{rank}")) for rank in range(5)]
    harmonic = sum(1 / rank for rank in range(1, 6))
    assert shares == pytest.approx([1 / rank / harmonic for rank in range(1, 6)], abs=0.02)
    pairs = set(zip(trace.user, trace.vc, strict=True))
    assert len(pairs) == len({user for user, _ in pairs}) == 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs_per_h": 0.0}, "jobs_per_h is 0.0; it must be above 0"),
        ({"dispersion_r": -1.0}, "dispersion_r is -1.0"),
        ({"noise_persistence": 1.0}, "noise_persistence is 1.0"),
        ({"repeat_prob": 1.0}, "repeat_prob is 1.0"),
        ({"hour_factors": [1.0]}, "hour_factors has 1 entries .* it needs 24"),
        ({"weekday_factors": [0.0] * 7}, "weekday_factors .* not all 0"),
        ({"gang_sizes": [1]}, r"gang_sizes is \[1\]"),
        ({"gang_sizes": [0, 4, 8]}, "at least 1 GPU"),
        ({"gang_probs": [0.5, 0.2, 0.1]}, "gang_probs .* sum to 1"),
        ({"durations": []}, "reach the largest of gang_sizes"),
        ({"longest_s": 0.0}, "longest_s is 0.0"),
        ({"vcs": 0}, "vcs is 0"),
        ({"users_per_vc": 0}, "users_per_vc is 0"),
        ({"repeat_sigma": -0.1}, "repeat_sigma is -0.1"),
        ({"mu": [1.0, 2.0]}, "unequal length"),
        ({"weights": [0.5]}, "sum to 1"),
        ({"sigma": [-1.0]}, "below 0"),
    ],
)
def test_a_wrong_parameter_is_named(change, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        replace(ALL if set(change) & {"mu", "weights", "sigma"} else SPEC, **change)
