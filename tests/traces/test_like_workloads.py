"""Every shipped `*_like` workload composes, generates, and meets the figures it stands for."""

import numpy as np
import pytest
from hydra.utils import instantiate

from gpuyard.studies.generated_traces import Shape, shape
from sim.physics.shipped_files import ShippedProfiles
from sim.traces.generator import generate
from sim.traces.likeness import DURATION, FEATURE_GAP, GANG, JobSample, likeness
from sim.traces.trace import Trace
from tests.traces.trace_samples import CONF, composed, preset, setting

NAMES = sorted(path.stem for path in (CONF / "workload").glob("*_like.yaml"))
SETTING = setting(gpus=128, catalogue=ShippedProfiles())
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


def made(name: str, jobs: int, seed: int = 0) -> Trace:
    spec = instantiate(composed(name).spec, _convert_="all")
    return generate(spec, jobs, np.random.default_rng(seed), name)


def figures(name: str, jobs: int, draws: int = 3) -> list[Shape]:
    return [shape(made(name, jobs, seed)) for seed in range(draws)]


def test_every_family_is_there() -> None:
    families = {"dag", "lingjun", "openb", "pai", "philly", "philly_full", "venus", "venus_full"}
    assert {f"{name}_like" for name in families} | set(PUBLISHED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_makes_windows_as_it_stands(name: str) -> None:
    assert composed(name).name == name
    workload = preset(name)
    table, again, other = (
        workload.window(part="train", index=index, setting=SETTING, seed=3) for index in (1, 1, 2)
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
    trace = made(name, 100_000)
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
    first, second = (JobSample.of(made(name, 8_000, seed), name) for seed in (0, 1))
    found = {each.feature: each.distance for each in likeness(first, [second])}
    assert found[GANG] < 0.05
    assert found[DURATION] < 0.06
    assert found[FEATURE_GAP] < 0.12


def test_fractions_cores_and_types_of_openb() -> None:
    trace = made("openb_like", 20_000)
    single = trace.num_gpus == 1
    assert np.mean(trace.gpu_milli[single] < 1000) == pytest.approx(0.40, abs=0.03)
    assert np.mean(trace.gpu_types != "") == pytest.approx(0.33, abs=0.04)
    fractions = trace.gpu_milli[single & (trace.gpu_milli < 1000)]
    assert fractions.mean() == pytest.approx(560, abs=90)  # the first half has fewer of 0.81


def test_workflows_of_dag_like() -> None:
    """Published sample: jobs a workflow 3 / 9 / 22, depth 2 / 5 / 9, edges p50 2, p90 8."""
    trace = made("dag_like", 40_000)
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
    table = preset("venus_full_like").window(part="train", index=0, setting=SETTING, seed=0)
    assert table.identity is not None
    assert table.fates is not None
    groups = np.bincount(table.identity.group)
    assert groups.max() > 3
    assert np.mean(table.fates.outcome == 0) == pytest.approx(0.526, abs=0.06)
