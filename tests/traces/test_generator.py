"""The generator: reproducible, on its parameters, as bursty as told; each optional part alone."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.studies.generated_traces import shape
from sim.errors import TraceError
from sim.jobs import CANCELLED, COMPLETED, FAILED
from sim.traces import processes
from sim.traces.generator import generate
from sim.traces.likeness import JobSample, alike_shares, count_correlations
from sim.traces.spec import DemandMix, WorkflowShape
from sim.traces.streams import window_streams
from tests.traces.trace_samples import STEADY, composed

ALL = processes.DurationMixture(up_to_gang=64, weights=[1.0], mu=[5.0], sigma=[1.0])
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


def test_one_hour_tells_no_spread_of_hours() -> None:
    assert np.isnan(shape(made(50, jobs_per_h=1e4)).dispersion)


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
    short = processes.DurationMixture(up_to_gang=1, weights=[1.0], mu=[2.0], sigma=[0.0])
    long = processes.DurationMixture(
        up_to_gang=64, weights=[0.5, 0.5], mu=[6.0, 8.0], sigma=[0.0, 0.0]
    )
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


AGAIN = processes.Recurrence(again_prob=0.8, gang_again_prob=0.4, memory_jobs=50, sigma=0.05)
DEMANDS = DemandMix(
    gpu_milli=[1000, 500, 250], gpu_milli_probs=[0.5, 0.3, 0.2], cores_ln_mu=1.8,
    cores_ln_sigma=0.6, mib_a_core_ln_mu=8.0, mib_a_core_ln_sigma=0.5, most_cores=64.0,
    most_memory_mib=262144.0, gpu_types=["", "P100|T4"], gpu_type_probs=[0.7, 0.3],
)  # fmt: skip
FLOWS = WorkflowShape(
    jobs=[1, 4, 20], job_probs=[0.3, 0.5, 0.2], source_prob=0.2, more_parents_prob=0.3,
    chain_prob=0.6, gang_slope=0.5, duration_sigma=0.0,
)  # fmt: skip
DAYS = processes.DayNoise(dispersion_r=1.0, persistence=0.0)
CLUMPS = processes.Clumps(prob=0.6, mean_gap_s=5.0)
OUTCOMES = processes.OutcomeMix(
    failed_ln_odds=-1.0, failed_slope=0.0, cancelled_ln_odds=-1.0, cancelled_slope=0.5
)


def steady(jobs: int, seed: int = 0, **changes):
    return generate(replace(STEADY, **changes), jobs, np.random.default_rng(seed), "made")


@pytest.mark.parametrize(
    ("name", "digest"), [("venus_like", "b4de773091695372"), ("philly_like", "5dbb5a1dbfeb3858")]
)
def test_windows_of_recorded_results_stay_as_they_were(name: str, digest: str) -> None:
    """Results in docs/results/ were made with these jobs: a change here changes them."""
    spec = instantiate(composed(name).spec, _convert_="all")
    trace = generate(spec, 5000, window_streams(seed=0, part="test", index=0).jobs, name)
    found = hashlib.sha256()
    for column in (trace.submit_s, trace.num_gpus, trace.duration_s):
        found.update(column.astype(np.int64).tobytes())
    assert found.hexdigest()[:16] == digest
    assert (trace.group, trace.outcome, trace.gpu_milli, trace.precedence) == (None,) * 4


def test_recurring_jobs_keep_the_marginals() -> None:
    trace = steady(60_000, recurrence=AGAIN)
    shares = [float(np.mean(trace.num_gpus == size)) for size in (1, 4, 64)]
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.02)
    assert np.median(np.log(trace.duration_s)) == pytest.approx(7.0, abs=0.15)
    assert np.std(np.log(trace.duration_s)) == pytest.approx(2.0, rel=0.05)


def test_a_group_is_one_owners_runs_of_one_gang_and_nearly_one_duration() -> None:
    trace = steady(3_000, recurrence=AGAIN)
    seen: dict[str, list[int]] = {}
    for row, group in enumerate(trace.group):
        seen.setdefault(group, []).append(row)
    assert max(map(len, seen.values())) > 5
    for rows in seen.values():
        assert len({(trace.user[row], trace.num_gpus[row]) for row in rows}) == 1
        ln_s = np.log(trace.duration_s[rows])
        assert np.ptp(ln_s) < 8 * AGAIN.sigma + 2 / trace.duration_s[rows].min()


def test_again_prob_is_the_share_of_accepted_proposals() -> None:
    """memory 1: each job proposes the one before, so runs of one GPU have mean length 1/(1-p)."""
    spec = processes.Recurrence(again_prob=0.75, gang_again_prob=0.0, memory_jobs=1, sigma=0.0)
    root = processes.draw_roots(spec, np.ones(40_000, dtype=np.int64), np.random.default_rng(0))
    assert np.mean(root == np.arange(40_000)) == pytest.approx(0.25, abs=0.01)
    gangs = processes.draw_roots(spec, np.full(1_000, 8), np.random.default_rng(0))
    assert gangs.tolist() == list(range(1_000))


def test_what_comes_back_is_alike_nearby_and_less_so_further_on() -> None:
    def alike(recurrence: processes.Recurrence | None) -> np.ndarray:
        return alike_shares(JobSample.of(steady(20_000, recurrence=recurrence), "made"))

    with_runs, without = alike(AGAIN), alike(None)
    assert np.all(np.diff(with_runs[:7]) < 0.005)
    assert with_runs[0] > without[0] + 0.15
    assert with_runs[-1] == pytest.approx(without[-1], abs=0.03)


def test_clumps_leave_the_rate_and_make_gaps_short() -> None:
    clumped = steady(40_000, clumps=CLUMPS)
    assert 40_000 / clumped.submit_s[-1] * 3600 == pytest.approx(40.0, rel=0.05)
    gaps = np.diff(clumped.submit_s)
    assert np.mean(gaps < 20) == pytest.approx(0.6 * (1 - np.exp(-4)) + 0.4 * 0.09, abs=0.03)
    assert np.mean(np.diff(steady(40_000).submit_s) < 20) == pytest.approx(0.2, abs=0.02)


def test_the_jobs_of_a_clump_follow_its_start() -> None:
    clumps = processes.Clumps(prob=0.5, mean_gap_s=2.0)
    times = processes.spread_clumps(
        clumps, np.array([0.0, 1e6]), np.array([3, 2]), np.random.default_rng(0)
    )
    assert (times[0], times[3]) == (0.0, 1e6)
    assert np.all(np.diff(times) > 0)
    assert times[2] < 100 and times[4] < 1e6 + 100


def test_day_noise_makes_whole_days_busy() -> None:
    noisy = steady(40_000, day_noise=DAYS)
    lags = count_correlations(JobSample.of(noisy, "made"), (3, 48))
    assert lags[0] > 0.6
    assert abs(lags[1]) < 0.25
    smooth = count_correlations(JobSample.of(steady(40_000), "made"), (3,))
    assert abs(smooth[0]) < 0.1


def test_outcomes_have_the_odds_at_every_size() -> None:
    trace = steady(60_000, outcomes=OUTCOMES)
    work_h = trace.num_gpus * trace.duration_s / 3600
    near_one = (work_h > 0.8) & (work_h < 1.25)
    counts = np.bincount(trace.outcome[near_one], minlength=3)
    odds = np.exp(-1.0)
    expected = np.array([1.0, odds, odds])[[COMPLETED, FAILED, CANCELLED]]
    assert counts / counts.sum() == pytest.approx(expected / expected.sum(), abs=0.03)
    long = np.mean(trace.outcome[work_h > 100] == CANCELLED)
    assert long > 2 * np.mean(trace.outcome[work_h < 0.1] == CANCELLED)


def test_demands_are_those_of_the_mix_and_of_the_group() -> None:
    trace = steady(20_000, demands=DEMANDS, recurrence=AGAIN)
    single = trace.num_gpus == 1
    assert set(trace.gpu_milli[~single]) == {1000}
    shares = [float(np.mean(trace.gpu_milli[single] == milli)) for milli in (1000, 500, 250)]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    assert np.median(trace.cpu_milli) == pytest.approx(1000 * np.exp(1.8), rel=0.1)
    assert trace.cpu_milli.max() <= 64_000
    assert trace.memory_mib.max() <= 262_144
    assert np.mean(trace.gpu_types == "P100|T4") == pytest.approx(0.3, abs=0.05)
    by_group = dict(zip(trace.group, trace.cpu_milli, strict=True))
    assert all(by_group[g] == c for g, c in zip(trace.group, trace.cpu_milli, strict=True))


@given(jobs=st.integers(0, 200), seed=st.integers(0, 20), source=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_workflows_are_acyclic_whole_and_submitted_together(
    jobs: int, seed: int, source: float
) -> None:
    trace = steady(jobs, seed=seed, workflows=replace(FLOWS, source_prob=source))
    links = trace.precedence
    assert len(trace) == jobs == len(links.workflow)
    assert np.all(np.diff(trace.submit_s) >= 0)
    for row in range(jobs):
        parents = links.parents[links.first[row] : links.first[row + 1]]
        assert np.all(parents < row)
        assert len(set(parents.tolist())) == len(parents)
        assert set(links.workflow[parents]) <= {links.workflow[row]}
        same = links.workflow == links.workflow[row]
        assert len(set(trace.submit_s[same])) == len(set(trace.user[same])) == 1


def test_workflow_shape_is_that_of_the_parameters() -> None:
    trace = steady(40_000, workflows=FLOWS)
    links = trace.precedence
    sizes = np.bincount(links.workflow)[:-1]
    shares = [float(np.mean(sizes == jobs)) for jobs in (1, 4, 20)]
    assert shares == pytest.approx([0.3, 0.5, 0.2], abs=0.02)
    counts = np.diff(links.first)
    first_of = np.searchsorted(links.workflow, np.arange(len(sizes)))
    assert not counts[first_of].any()
    later = np.setdiff1d(np.arange(len(trace)), np.append(first_of, links.workflow.size - 1))
    assert np.mean(counts[later] == 0) == pytest.approx(0.2, abs=0.02)
    rate = 40_000 / trace.submit_s[-1] * 3600
    assert rate == pytest.approx(40.0, rel=0.1)
    one, big = trace.num_gpus == 1, trace.num_gpus == 64
    ratio = np.median(trace.duration_s[big]) / np.median(trace.duration_s[one])
    assert ratio == pytest.approx(8.0, rel=0.25)  # 64 ** 0.5


@given(
    jobs=st.integers(0, 120), again=st.floats(0, 0.99), prob=st.floats(0, 0.95),
    gap=st.floats(0, 1e4), memory=st.integers(1, 10**6), r=st.floats(1e-3, 1e6),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_every_combination_of_parts_is_a_valid_trace(jobs, again, prob, gap, memory, r) -> None:
    recurrence = replace(AGAIN, again_prob=again, gang_again_prob=again / 2, memory_jobs=memory)
    parts = {
        "repeat_prob": 0.3, "recurrence": recurrence, "outcomes": OUTCOMES, "demands": DEMANDS,
        "clumps": processes.Clumps(prob=prob, mean_gap_s=gap),
        "day_noise": processes.DayNoise(dispersion_r=max(r, 0.05), persistence=0.9),
    }  # fmt: skip
    trace, again_made = steady(jobs, **parts), steady(jobs, **parts)
    assert len(trace) == jobs == len(set(trace.job_id))
    assert np.all(np.diff(trace.submit_s) >= 0)
    assert np.all((trace.duration_s >= 1) & (trace.duration_s <= 1e7))
    assert set(trace.outcome.tolist()) <= {COMPLETED, FAILED, CANCELLED}
    assert np.all((trace.gpu_milli >= 1) & (trace.gpu_milli <= 1000))
    assert again_made.submit_s.tobytes() == trace.submit_s.tobytes()
    assert again_made.outcome.tobytes() == trace.outcome.tobytes()


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        (AGAIN, {"again_prob": 1.0}, r"recurrence\.again_prob is 1.0; it must be from 0"),
        (AGAIN, {"gang_again_prob": -0.1}, r"recurrence\.gang_again_prob is -0.1"),
        (AGAIN, {"memory_jobs": 0}, r"recurrence\.memory_jobs is 0"),
        (AGAIN, {"sigma": float("nan")}, r"recurrence\.sigma is nan"),
        (CLUMPS, {"prob": 1.0}, r"clumps\.prob is 1.0"),
        (CLUMPS, {"mean_gap_s": -1.0}, r"clumps\.mean_gap_s is -1"),
        (DAYS, {"dispersion_r": 0.0}, "dispersion_r is 0"),
        (DAYS, {"persistence": 1.0}, "persistence is 1"),
        (OUTCOMES, {"failed_slope": float("inf")}, r"outcomes\.failed_slope is inf"),
        (DEMANDS, {"gpu_milli": [0, 1, 2]}, "between 1 and 1000"),
        (DEMANDS, {"gpu_milli": [1]}, r"gpu_milli values is \[1\]"),
        (DEMANDS, {"gpu_type_probs": [0.1, 0.2]}, "sum to 1"),
        (DEMANDS, {"cores_ln_sigma": -1.0}, r"demands\.cores_ln_sigma is -1"),
        (DEMANDS, {"most_cores": 0.0}, r"demands\.most_cores is 0"),
        (DEMANDS, {"most_memory_mib": 1.0}, r"demands\.most_memory_mib is 1"),
        (FLOWS, {"jobs": [0, 1, 2]}, "must be 1 job or more"),
        (FLOWS, {"chain_prob": 1.5}, r"workflows\.chain_prob is 1.5"),
        (FLOWS, {"more_parents_prob": 1.0}, r"workflows\.more_parents_prob is 1"),
        (STEADY, {"recurrence": AGAIN, "workflows": FLOWS}, "must be null beside workflows"),
        (STEADY, {"repeat_prob": 0.1, "workflows": FLOWS}, "must be 0 beside workflows"),
    ],
)
def test_a_wrong_parameter_of_a_part_is_named(part, change, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        replace(part, **change)


def test_each_job_follows_the_one_it_goes_back_to_where_that_one_draws_it() -> None:
    spec = processes.Recurrence(again_prob=0.8, gang_again_prob=0.4, memory_jobs=30, sigma=0.0)
    gangs = np.random.default_rng(5).choice([1, 8], 2_000)
    rng = np.random.default_rng(6)
    back = np.exp(rng.random(len(gangs)) * np.log(31.0)).astype(int)
    chance, root = rng.random(len(gangs)), list(range(len(gangs)))
    for row in range(len(gangs)):
        if back[row] <= row:
            earlier = root[row - back[row]]
            if chance[row] < (0.8 if gangs[earlier] == 1 else 0.4):
                root[row] = earlier
    assert processes.draw_roots(spec, gangs, np.random.default_rng(6)).tolist() == root
