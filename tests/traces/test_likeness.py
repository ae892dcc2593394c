"""Distances between traces, and every shipped `*_like` workload meets what it stands for."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hydra.utils import instantiate
from scipy import stats

from gpuyard.studies.generated_traces import Shape, shape
from sim.errors import TraceError
from sim.jobs import never_ran
from sim.physics.shipped_files import ShippedProfiles
from sim.traces.generator import generate
from sim.traces.likeness import (
    ALIKE,
    COUNTS,
    DURATION,
    FEATURE_GAP,
    GANG,
    GANG_BY_WORK,
    HOUR_OF_DAY,
    HOURLY,
    SAME_SECOND,
    WEEKDAY,
    JobSample,
    Sample,
    alike_shares,
    best_turn,
    count_correlations,
    likeness,
    ln_wasserstein,
    samples,
    week_shares,
    weighted_ks,
)  # fmt: skip
from sim.traces.processes import DurationMixture
from sim.traces.trace import Trace
from tests.traces.trace_samples import CONF, DATA, STEADY, composed, preset, setting

SPEC = replace(
    STEADY, jobs_per_h=30.0, dispersion_r=2.0, noise_persistence=0.3, repeat_prob=0.05,
    hour_factors=[0.2] * 8 + [1.5] * 16, weekday_factors=[1.2] * 5 + [0.5] * 2, repeat_sigma=0.1,
    gang_sizes=[1, 4, 8, 32], gang_probs=[0.6, 0.2, 0.15, 0.05], longest_s=1e6, vcs=1,
    durations=[DurationMixture(up_to_gang=64, weights=[1.0], mu=[6.0], sigma=[2.0])],
    users_per_vc=1, zipf_exponent=0.0,
)  # fmt: skip


def made(jobs: int = 12_000, seed: int = 0, **changes) -> JobSample:
    spec = replace(SPEC, **changes)
    return JobSample.of(generate(spec, jobs, np.random.default_rng(seed), "made"), "made")


def by_feature(first: JobSample, *others: JobSample):
    return {each.feature: each for each in likeness(first, others)}


@cache
def twenty(seed: int) -> JobSample:
    """20,000 jobs of the generator as it is."""
    return made(20_000, seed=seed)


@cache
def apart():
    """Two draws of it."""
    return by_feature(twenty(1), twenty(2))


def plain(values) -> Sample:
    return Sample(np.asarray(values, dtype=float), np.ones(len(values)), 0.0)


def test_ks_and_wasserstein_are_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = np.exp(rng.normal(5, 1, 400)), np.exp(rng.normal(5.5, 2, 300))
    first, second = np.maximum(first, 1), np.maximum(second, 1)
    ours = weighted_ks(plain(first), plain(second))
    assert ours == pytest.approx(stats.ks_2samp(first, second).statistic)
    shift = ln_wasserstein(plain(first), plain(second))
    assert shift == pytest.approx(stats.wasserstein_distance(np.log(first), np.log(second)))


def test_a_weight_counts_as_so_many_values() -> None:
    light = Sample(np.array([1.0, 8.0]), np.array([3.0, 1.0]), 0.0)
    assert weighted_ks(light, plain([1, 1, 1, 8])) == pytest.approx(0.0)
    assert weighted_ks(light, plain([1, 8])) == pytest.approx(0.25)
    assert light.median() == 1.0


def test_by_hand() -> None:
    """Jobs at 0, 0, 10, 20 s, gangs 1 1 2 2, durations 100 110 50 5 s."""
    jobs = JobSample(
        np.array([0.0, 0.0, 10.0, 20.0]), np.array([1, 1, 2, 2]), np.array([100.0, 110, 50, 5])
    )
    found = samples(jobs)
    assert found[FEATURE_GAP].values.tolist() == [0.0, 10.0, 10.0]
    assert found[GANG_BY_WORK].weights.tolist() == [100.0, 110.0, 100.0, 10.0]
    assert found[GANG].median() == 1.0
    assert found[HOURLY].values.tolist() == [4.0]
    assert alike_shares(jobs, (1, 2)).tolist() == [1 / 3, 0.0]
    assert week_shares(jobs)[0] == 1.0
    assert np.isnan(count_correlations(jobs, (1,)))[0]


def test_a_trace_is_no_distance_from_itself_and_its_floor_is_not_zero() -> None:
    trace = made()
    for each in likeness(trace, [trace]):
        assert each.distance == pytest.approx(0.0, abs=1e-12), each.feature
        assert each.floor >= 0
    assert by_feature(trace, trace)[DURATION].floor > 0


def test_another_draw_of_one_generator_is_within_twice_its_floor() -> None:
    far = [
        each.feature
        for each in likeness(twenty(0), [twenty(s) for s in (1, 2, 3)])
        if each.distance > 2 * each.floor and each.distance > 0.02
    ]
    assert far == []


@pytest.mark.parametrize(
    ("feature", "change"),
    [
        (DURATION, {"durations": [replace(SPEC.durations[0], mu=[7.0])]}),
        (GANG, {"gang_probs": [0.4, 0.4, 0.15, 0.05]}),
        (FEATURE_GAP, {"jobs_per_h": 60.0}),
        (HOURLY, {"dispersion_r": 0.3}),
        (HOUR_OF_DAY, {"hour_factors": [1.0] * 24}),
        (WEEKDAY, {"weekday_factors": [1.0, 0.1, 1.0, 0.1, 1.0, 0.1, 2.0]}),
        (SAME_SECOND, {"repeat_prob": 0.3}),
        (ALIKE, {"repeat_prob": 0.5}),
        (COUNTS, {"noise_persistence": 0.95, "dispersion_r": 0.5}),
    ],
)
def test_what_differs_is_found_where_it_differs(feature: str, change) -> None:
    other = by_feature(twenty(1), made(20_000, seed=2, **change))[feature]
    same = apart()[feature]
    assert other.distance > 1.5 * same.distance
    assert other.over_floor > 1


def test_what_the_halves_never_have_is_infinitely_far_where_the_other_has_it() -> None:
    even, other = made(jobs=2000), made(jobs=2000, repeat_prob=0.3)
    apart = replace(even, submit_s=np.arange(2000.0) * 60.0)
    found = by_feature(apart, other)[SAME_SECOND]
    assert found.floor == 0 and found.distance > 0.2 and found.over_floor == np.inf
    assert np.isnan(by_feature(apart, apart)[SAME_SECOND].over_floor)


def test_a_shift_of_ln_duration_is_the_ln_shift() -> None:
    first = made()
    longer = JobSample(first.submit_s, first.num_gpus, first.duration_s * np.e)
    assert by_feature(first, longer)[DURATION].ln_shift == pytest.approx(1.0, abs=0.01)


def test_the_week_is_turned_to_fit() -> None:
    first = made()
    later = JobSample(first.submit_s + 50 * 3600.0, first.num_gpus, first.duration_s)
    turn = best_turn(week_shares(first), week_shares(later))
    assert turn == 168 - 50
    assert by_feature(first, later)[HOUR_OF_DAY].distance == pytest.approx(0.0, abs=1e-12)


def test_halves_are_of_time_unless_one_is_nearly_empty() -> None:
    even = made()
    early, late = even.halves()
    middle = (even.submit_s[0] + even.submit_s[-1]) / 2
    assert early.submit_s[-1] < middle <= late.submit_s[0]
    crowded = JobSample(even.submit_s**9, even.num_gpus, even.duration_s)
    assert [len(half) for half in crowded.halves()] == [6_000, 6_000]


def test_short_traces_have_no_profiles_and_no_rare_classes() -> None:
    found = by_feature(made(60), made(60, seed=1))
    assert WEEKDAY not in found
    assert "duration, 9+ GPUs (s)" not in found
    assert DURATION in found


def test_too_little_to_compare_is_told() -> None:
    trace = generate(SPEC, 10, np.random.default_rng(0), "made")
    with pytest.raises(TraceError, match="made has 10 jobs; a comparison needs 40"):
        JobSample.of(trace, "made")
    burst = replace(generate(SPEC, 50, np.random.default_rng(0), "made"), submit_s=np.zeros(50))
    with pytest.raises(TraceError, match="arrive in one second"):
        JobSample.of(burst, "made")


SETTING = setting(gpus=1 << 60, catalogue=ShippedProfiles())
# generator -> workload, file, window start (s); docs/results/generator.md has the distances.
PAIRS = {
    "philly_full_like": ("philly", "philly_jobs.csv.gz", (4062780, 6741180)),
    "venus_full_like": ("helios_venus", "helios_venus_jobs.csv.gz", (1195101, None)),
    "pai_like": ("alibaba_pai_tasks", "alibaba_pai_tasks.csv.gz", (172800, None)),
    "openb_like": ("alibaba_openb", "alibaba_openb_pods.csv.gz", (9830000, None)),
    "lingjun_like": ("alibaba_lingjun_jobs", "alibaba_lingjun_jobs.csv.gz", (None, None)),
}
# How many floors a mean of nine draws may lie off, and what is small whatever the floor.
MOST_FLOORS, SMALL = 1.7, 0.02


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_generator_is_about_as_near_as_the_halves_of_its_trace(name: str) -> None:
    trace, file, (start_s, end_s) = PAIRS[name]
    path = DATA / "traces" / file
    if not path.is_file():
        pytest.skip(f"GPUYARD_DATA has no traces/{file}")
    changes = [f"path={path}", "rules.unknown_gpu_types=any"]
    changes += [f"window.start_s={start_s}"] if start_s else []
    changes += [f"window.end_s={end_s}"] if end_s else []
    jobs = preset(trace, *changes).window(part="train", index=0, setting=SETTING, seed=0)
    ran = np.ones(len(jobs), dtype=bool)
    if jobs.fates is not None:
        ran = ~never_ran(jobs.duration_s, jobs.fates.withdraw_s)
    real = JobSample.of(jobs, name).take(ran)
    made = instantiate(composed(name).spec, _convert_="all")
    draws = [
        JobSample.of(generate(made, len(real), np.random.default_rng(seed), name), name)
        for seed in range(9)
    ]
    found = {each.feature: each for each in likeness(real, draws)}
    far = {
        feature: (found[feature].distance, found[feature].floor)
        for feature in (FEATURE_GAP, HOURLY, GANG, DURATION, SAME_SECOND, ALIKE, COUNTS)
        if found[feature].distance > max(MOST_FLOORS * found[feature].floor, SMALL)
    }
    assert far == {}


NAMES = sorted(path.stem for path in (CONF / "workload").glob("*_like.yaml"))
CLUSTER = setting(gpus=128, catalogue=ShippedProfiles())
# docs/results: mean gang, p50 and p90 of durations (s), share of jobs with one GPU, jobs an
# hour; of the whole traces, while the generators are fitted to their first halves.
MEASURED = {
    "philly_full_like": (1.47, 1_829, 24_400, 0.905, 79),
    "venus_full_like": (6.49, 205, 20_100, 0.505, 27.1),
    "pai_like": (5.09, 630, 12_900, 0.768, 37),
    "openb_like": (1.06, 803, 7_893, 0.987, 7.5),
    "lingjun_like": (36, 540, 28_200, 0.098, 4.8),
}
# Published tables: jobs an hour over 183 days, mean gang, median and mean duration (s), share
# completed of the jobs and of the GPU-time.
PUBLISHED = {
    "seren_like": (151.1, 5.68, 122, 1_414, 0.497, 0.212),
    "kalos_like": (4.53, 26.77, 124, 1_260, 0.541, 0.313),
    "earth_like": (97.3, 2.10, 234, 5_131, 0.735, 0.499),
    "saturn_like": (159.1, 4.01, 124, 5_253, 0.582, 0.520),
    "uranus_like": (74.9, 4.04, 280, 9_164, 0.607, 0.509),
}


def generated(name: str, jobs: int, seed: int = 0) -> Trace:
    spec = instantiate(composed(name).spec, _convert_="all")
    return generate(spec, jobs, np.random.default_rng(seed), name)


def figures(name: str, jobs: int, draws: int = 3) -> list[Shape]:
    return [shape(generated(name, jobs, seed)) for seed in range(draws)]


def test_every_family_is_there() -> None:
    families = {"dag", "lingjun", "openb", "pai", "philly", "philly_full", "venus", "venus_full"}
    assert {f"{name}_like" for name in families} | set(PUBLISHED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_makes_windows_as_it_stands(name: str) -> None:
    assert composed(name).name == name
    workload = preset(name)
    table, again, other = (
        workload.window(part="train", index=index, setting=CLUSTER, seed=3) for index in (1, 1, 2)
    )
    assert len(table) >= 2400
    assert table.measured.sum() == pytest.approx(0.6 * len(table), abs=2)
    assert table.num_gpus.max() <= 16
    share = 1.0 if table.demands is None else table.demands.gpu_milli / 1000
    work_gpu_s = float((table.num_gpus * share * table.duration_s).sum())
    assert work_gpu_s / (128 * table.submit_s[-1]) == pytest.approx(0.9)
    assert table.submit_s.tobytes() == again.submit_s.tobytes()
    assert table.duration_s.tobytes() != other.duration_s.tobytes()


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_it_has_the_figures_of_its_trace(name: str) -> None:
    gang, p50, p90, single, rate = MEASURED[name]
    found = figures(name, 20_000)
    assert np.mean([each.mean_gang for each in found]) == pytest.approx(gang, rel=0.15)
    assert np.mean([each.size_shares[0] for each in found]) == pytest.approx(single, abs=0.03)
    assert np.mean([each.jobs_per_h for each in found]) == pytest.approx(rate, rel=0.3)
    for place, wanted in ((0, p50), (1, p90)):  # openb: its first half is that much shorter
        ln_ratio = np.mean([np.log(each.duration_s[place] / wanted) for each in found])
        assert abs(ln_ratio) < np.log(2.4), (place, ln_ratio)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_it_has_the_published_figures(name: str) -> None:
    rate, gang, median_s, mean_s, completed, completed_work = PUBLISHED[name]
    trace = generated(name, 100_000)
    found = shape(trace)
    assert found.jobs_per_h == pytest.approx(rate, rel=0.2)
    assert found.mean_gang == pytest.approx(gang, rel=0.1)
    assert found.duration_s[0] == pytest.approx(median_s, rel=0.1)
    assert found.duration_s[3] == pytest.approx(mean_s, rel=0.25)
    work_gpu_s = trace.num_gpus * trace.duration_s
    done = trace.outcome == 0
    assert done.mean() == pytest.approx(completed, abs=0.02)
    assert work_gpu_s[done].sum() / work_gpu_s.sum() == pytest.approx(completed_work, abs=0.1)


@pytest.mark.parametrize("name", ["venus_full_like", "pai_like", "dag_like"])
def test_two_draws_of_one_generator_are_alike(name: str) -> None:
    first, second = (JobSample.of(generated(name, 8_000, seed), name) for seed in (0, 1))
    found = {each.feature: each.distance for each in likeness(first, [second])}
    assert found[GANG] < 0.05
    assert found[DURATION] < 0.06
    assert found[FEATURE_GAP] < 0.12


def test_fractions_cores_and_types_of_openb() -> None:
    trace = generated("openb_like", 20_000)
    single = trace.num_gpus == 1
    assert np.mean(trace.gpu_milli[single] < 1000) == pytest.approx(0.40, abs=0.03)
    assert np.mean(trace.gpu_types != "") == pytest.approx(0.33, abs=0.04)
    fractions = trace.gpu_milli[single & (trace.gpu_milli < 1000)]
    assert fractions.mean() == pytest.approx(560, abs=90)  # the first half has fewer of 0.81


def test_workflows_of_dag_like() -> None:
    """Published sample: jobs a workflow 3 / 9 / 22, depth 2 / 5 / 9, edges p50 2, p90 8."""
    trace = generated("dag_like", 40_000)
    links = trace.precedence
    depth = np.ones(len(trace), dtype=int)
    for row in range(len(trace)):
        parents = links.parents[links.first[row] : links.first[row + 1]]
        depth[row] = 1 + depth[parents].max() if len(parents) else 1
    flows = int(links.workflow[-1])  # the last may be cut
    deepest = np.zeros(flows + 1, dtype=int)
    np.maximum.at(deepest, links.workflow, depth)
    edges = np.bincount(links.workflow, np.diff(links.first))
    jobs = np.bincount(links.workflow)
    quantiles = [np.quantile(v[:flows], (0.5, 0.9, 0.99)).tolist() for v in (jobs, deepest, edges)]
    assert quantiles[0] == pytest.approx([3, 9, 22], abs=3)
    assert quantiles[1] == pytest.approx([2, 5, 9], abs=1)
    assert quantiles[2][:2] == pytest.approx([2, 8], abs=2)


def test_recurrence_owners_and_outcomes_reach_the_job_table() -> None:
    table = preset("venus_full_like").window(part="train", index=0, setting=CLUSTER, seed=0)
    assert table.identity is not None
    assert table.fates is not None
    groups = np.bincount(table.identity.group)
    assert groups.max() > 3
    assert np.mean(table.fates.outcome == 0) == pytest.approx(0.526, abs=0.06)
