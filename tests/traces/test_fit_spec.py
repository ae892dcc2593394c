"""Fitting the generator: parameters that made a trace are found again, and the yaml composes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from sim.errors import TraceError
from sim.jobs import Identity
from sim.traces.fit_parts import OutcomeShares, Owners, fit_outcomes, fit_owners, shares_in
from sim.traces.fit_spec import fit_durations, fit_gangs, fit_normals, fit_spec
from sim.traces.generator import generate
from sim.traces.likeness import JobSample, likeness
from sim.traces.processes import Clumps, DayNoise, DurationMixture, Recurrence, draw_outcomes
from sim.traces.spec import WorkloadSpec, workload_yaml
from tests.traces.trace_samples import CONF, STEADY

OWNERS = Owners(vcs=3, users_per_vc=2, zipf_exponent=1.0)
HOURS = [0.3] * 8 + [1.4] * 12 + [1.0] * 4
SPEC = replace(
    STEADY, dispersion_r=2.0, noise_persistence=0.5, hour_factors=HOURS, repeat_prob=0.08,
    weekday_factors=[1.2] * 5 + [0.5] * 2, repeat_sigma=0.1, gang_sizes=[1, 4, 8, 32],
    gang_probs=[0.6, 0.2, 0.15, 0.05], longest_s=1e6, vcs=3, users_per_vc=2,
    durations=[
        DurationMixture(up_to_gang=1, weights=[0.4, 0.6], mu=[3.0, 8.0], sigma=[0.5, 1.0]),
        DurationMixture(up_to_gang=1000, weights=[1.0], mu=[7.0], sigma=[1.5]),
    ],
    clumps=Clumps(prob=0.3, mean_gap_s=8.0),
    recurrence=Recurrence(again_prob=0.6, gang_again_prob=0.3, memory_jobs=30, sigma=0.05),
)  # fmt: skip


def sample(spec: WorkloadSpec, jobs: int, seed: int = 0) -> JobSample:
    return JobSample.of(generate(spec, jobs, np.random.default_rng(seed), "made"), "made")


def fitted(jobs: JobSample, *, parts: int, first_hour: float = 0.0) -> WorkloadSpec:
    return fit_spec(
        jobs, first_hour=first_hour, duration_parts=parts, owners=OWNERS, outcomes=None,
        rng=np.random.default_rng(0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def found() -> WorkloadSpec:
    return fitted(sample(SPEC, 40_000), parts=3)


def test_the_parameters_of_a_generated_trace_are_found_again(found: WorkloadSpec) -> None:
    assert found.jobs_per_h == pytest.approx(40.0, rel=0.1)
    assert 1 / found.dispersion_r == pytest.approx(0.5, rel=0.4)
    assert found.noise_persistence == pytest.approx(0.5, abs=0.15)
    assert found.repeat_prob == pytest.approx(0.08, abs=0.02)
    assert found.gang_sizes == [1, 4, 8, 32]
    assert found.gang_probs == pytest.approx(SPEC.gang_probs, abs=0.015)
    assert found.clumps is not None
    assert found.clumps.prob == pytest.approx(0.3, abs=0.11)
    assert 4.0 <= found.clumps.mean_gap_s <= 15.0
    assert found.recurrence is not None
    assert found.recurrence.again_prob == pytest.approx(0.6, abs=0.2)
    assert found.recurrence.gang_again_prob < found.recurrence.again_prob
    assert (found.vcs, found.users_per_vc, found.zipf_exponent) == (3, 2, 1.0)
    # Hours and weekdays at some turn of the week.
    turned = [np.abs(np.roll(found.hour_factors, turn) - HOURS).mean() for turn in range(24)]
    assert min(turned) < 0.15
    assert min(found.weekday_factors) < 0.8


def test_a_trace_of_the_fit_is_as_near_as_another_draw(found: WorkloadSpec) -> None:
    real = sample(SPEC, 40_000)
    far = [
        each.feature
        for each in likeness(real, [sample(found, 40_000, seed) for seed in (5, 6, 7)])
        if each.distance > 3 * each.floor and each.distance > 0.05
    ]
    assert far == []


def test_a_poisson_trace_gets_no_noise_no_clumps_and_no_recurrence() -> None:
    plain = replace(SPEC, dispersion_r=1e6, noise_persistence=0.0, repeat_prob=0.0, clumps=None,
                    recurrence=None)  # fmt: skip
    found = fitted(sample(plain, 20_000), parts=1)
    assert found.clumps is None
    assert found.day_noise is None
    assert found.recurrence is None
    assert found.dispersion_r > 30
    assert found.repeat_prob < 0.005


def test_busy_days_are_told_from_busy_hours() -> None:
    noise = DayNoise(dispersion_r=2.0, persistence=0.0)
    days = replace(SPEC, day_noise=noise, dispersion_r=1e6, clumps=None)
    found = fitted(sample(days, 60_000), parts=1)
    assert found.day_noise is not None
    assert 1 / found.day_noise.dispersion_r == pytest.approx(0.5, rel=0.5)
    assert found.dispersion_r > 2 * found.day_noise.dispersion_r


def test_first_hour_names_the_hours() -> None:
    spec = replace(SPEC, hour_factors=[0.0] * 9 + [1.0] + [0.0] * 14, clumps=None, repeat_prob=0.0)
    trace = generate(spec, 10_000, np.random.default_rng(0), "made")
    submit_s = trace.submit_s - trace.submit_s[0]
    jobs = JobSample(submit_s, trace.num_gpus, trace.duration_s)
    found = fitted(jobs, parts=1, first_hour=9.0 + (trace.submit_s[0] % 3600) / 3600)
    assert int(np.argmax(found.hour_factors)) == 9
    assert sorted(found.hour_factors)[-2] < 0.2


def test_mixtures_of_normals_are_found_again() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(2, 0.3, 6_000), rng.normal(8, 1.5, 4_000)])
    weight, mean, sigma = fit_normals(values, 2)
    assert weight == pytest.approx([0.6, 0.4], abs=0.01)
    assert mean == pytest.approx([2, 8], abs=0.05)
    assert sigma == pytest.approx([0.3, 1.5], abs=0.05)


def test_equal_durations_are_a_narrow_part_and_zero_counts_as_one_second() -> None:
    found = fit_durations(np.ones(200, dtype=np.int64), np.zeros(200), 2)
    assert len(found) == 1
    assert found[0].mu == pytest.approx([0.0] * len(found[0].mu), abs=1e-6)
    assert max(found[0].sigma) <= 0.05


def test_small_classes_join_their_neighbours() -> None:
    gangs = np.repeat([1, 4, 8, 64], [500, 10, 300, 5])
    found = fit_durations(gangs, np.full(len(gangs), 100.0), 1)
    assert [each.up_to_gang for each in found] == [1, 1_000_000]


def test_rare_gangs_count_for_the_nearest_common_one() -> None:
    gangs = np.repeat([1, 7, 8], [9_000, 1, 999])
    sizes, shares = fit_gangs(gangs, np.ones(len(gangs)))
    assert sizes.tolist() == [1, 8]
    assert shares == pytest.approx([0.9, 0.1])


def test_outcomes_meet_both_kinds_of_shares() -> None:
    rng = np.random.default_rng(0)
    work = np.exp(rng.normal(6, 2.5, 50_000))
    wanted = OutcomeShares(of_jobs=[0.6, 0.25, 0.15], of_work=[0.4, 0.15, 0.45])
    found = shares_in(draw_outcomes(fit_outcomes(work, wanted), work, rng), work)
    assert found is not None
    assert found.of_jobs == pytest.approx(wanted.of_jobs, abs=0.01)
    assert found.of_work == pytest.approx(wanted.of_work, abs=0.06)


def test_an_outcome_that_does_not_occur_is_not_drawn() -> None:
    rng = np.random.default_rng(0)
    work = np.exp(rng.normal(6, 1, 20_000))
    mix = fit_outcomes(work, OutcomeShares(of_jobs=[0.7, 0.3, 0], of_work=[0.7, 0.3, 0]))
    assert set(draw_outcomes(mix, work, rng).tolist()) == {0, 1}
    assert shares_in(np.zeros(5, dtype=np.int64), np.ones(5)) is None


@pytest.mark.parametrize(
    ("jobs", "work", "words"),
    [
        ([0.5, 0.5], [0.5, 0.3, 0.2], "outcome shares of jobs"),
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.9], "outcome shares of GPU-time"),
        ([0.0, 0.5, 0.5], [0.5, 0.3, 0.2], "completed above 0"),
        ([0.98, 0.01, 0.01], [0.01, 0.01, 0.98], "no odds give"),
    ],
)
def test_impossible_outcomes_are_told(jobs, work, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        fit_outcomes(np.full(100, 50.0), OutcomeShares(of_jobs=jobs, of_work=work))


def test_owners_of_a_trace() -> None:
    assert fit_owners(None) == Owners(vcs=1, users_per_vc=1, zipf_exponent=0.0)
    user = np.repeat(np.arange(6), [600, 300, 200, 150, 120, 100])  # 600 / rank
    found = fit_owners(Identity(user=user, group=np.full(len(user), -1), vc=user % 2))
    assert (found.vcs, found.users_per_vc) == (2, 3)
    assert found.zipf_exponent == pytest.approx(1.0, abs=0.01)


def test_the_yaml_composes_back_to_the_parameters(found: WorkloadSpec, tmp_path: Path) -> None:
    text = workload_yaml(found, name="x_like", heading=("A heading.",), num_jobs=50)
    assert max(map(len, text.splitlines())) <= 100
    bases = {path.name: path.read_text() for path in (CONF / "workload").glob("_*.yaml")}
    (tmp_path / "workload").mkdir()
    for name, content in {**bases, "x_like.yaml": text}.items():
        (tmp_path / "workload" / name).write_text(content)
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose(overrides=["+workload=x_like"]).workload
    back = instantiate(config.spec, _convert_="all")
    assert (config.name, config.num_jobs) == ("x_like", 50)
    changed = ("thin", "max_gang", "min_duration_s", "max_duration_s", "load")
    assert [config[key] for key in changed] == [None] * 5  # a day of it is a day
    assert back.recurrence == found.recurrence
    assert back.clumps == found.clumps
    assert back.jobs_per_h == pytest.approx(found.jobs_per_h, rel=1e-3)
    assert back.hour_factors == pytest.approx(list(found.hour_factors), rel=1e-3)
    assert [each.mu for each in back.durations] == [list(each.mu) for each in found.durations]
