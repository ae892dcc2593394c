"""Published workloads: marginals hold, work includes what the network adds; workloads in turn."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.published_profiles import DallyProfiles
from sim.traces.published_workload import IdealWorkload, PublishedMix, YorkMix, draw_published
from sim.traces.trace import Trace
from sim.traces.workload import MixedWorkload
from tests.traces.trace_samples import CONF, refusal, setting

BATCH_COUNTS = {1: 270, 2: 13, 4: 52, 8: 109, 16: 42, 32: 11, 40: 1, 48: 1, 56: 1}
MODELS = {"mobilenet_v3": 125, "bert_large": 125, "resnet50": 125, "alexnet": 53, "resnet18": 38,
          "vgg11": 34}  # fmt: skip


DALLY = ("topology=dally_4x4", "profiles=dally")
YORK = ("topology=topdrl_2x4x4", "profiles=york")


def workload(
    name: str, *changes: str, network: str = "none", on: tuple[str, ...] = DALLY
) -> IdealWorkload:
    """The file of conf/workload with changes."""
    config = composed(f"workload={name}", f"network={network}", *on).copy()
    config.merge_with_dotlist([f"workload.{change}" for change in changes])
    OmegaConf.resolve(config)
    return instantiate(config.workload, _convert_="all")


@cache
def composed(*words: str) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base=None):
        return compose(config_name="base", overrides=list(words))


def window(made: IdealWorkload, index: int = 0) -> JobTable:
    profiles = DallyProfiles(gpu_types=["v100"])
    where = setting(gpus=128, catalogue=profiles)
    return made.window(part="test", index=index, setting=where, seed=0)


def trace_of(made: IdealWorkload, seed: int) -> Trace:
    return draw_published(made.mix, np.random.default_rng(seed), "t")


def counts(values: Any) -> dict[Any, int]:
    found, number = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), number.tolist(), strict=True))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_batch_has_the_published_marginals_whatever_the_seed(seed: int):
    trace = trace_of(workload("dally_batch"), seed)
    assert counts(trace.num_gpus) == BATCH_COUNTS
    assert counts(trace.model.astype(str)) == MODELS
    assert np.median(trace.duration_s) == pytest.approx(14_195, rel=1e-3)
    assert trace.duration_s.mean() == pytest.approx(52_714, rel=1e-3)
    assert trace.duration_s.max() == pytest.approx(761_516, rel=1e-3)
    assert set(trace.submit_s) == {0.0}


def test_gpu_hours_are_about_those_published():
    for name, hours, jobs in (("dally_batch", 13_054, 500), ("dally_poisson", 13_413, 411)):
        made = workload(name)
        traces = [trace_of(made, seed) for seed in range(40)]
        work_h = [(trace.num_gpus * trace.duration_s).sum() / 3600 for trace in traces]
        assert len(traces[0]) == jobs
        assert np.mean(work_h) == pytest.approx(hours, rel=0.03)


def test_poisson_gaps_have_the_mean_asked_for():
    for mean_gap_s in (416, 1453, 2908):
        made = workload("dally_poisson", f"mix.mean_gap_s={mean_gap_s}")
        gaps_s = np.concatenate([np.diff(trace_of(made, seed).submit_s) for seed in range(20)])
        assert gaps_s.mean() == pytest.approx(mean_gap_s, rel=0.05)
        assert gaps_s.std() == pytest.approx(mean_gap_s, rel=0.1)


def test_windows_differ_and_repeat_themselves():
    made = workload("dally_batch")
    first, again, other = window(made), window(made), window(made, 1)
    np.testing.assert_array_equal(first.duration_s, again.duration_s)
    assert not np.array_equal(first.num_gpus, other.num_gpus)
    np.testing.assert_allclose(np.sort(first.duration_s), np.sort(other.duration_s))
    assert first.measured.all()


def test_work_is_the_ideal_time_and_what_the_network_adds_at_best():
    quiet = window(workload("dally_batch"))
    slow = window(workload("dally_batch", network="tiered_rings"))
    np.testing.assert_array_equal(quiet.num_gpus, slow.num_gpus)
    stretch = slow.duration_s / quiet.duration_s
    np.testing.assert_array_equal(stretch[slow.num_gpus == 1], 1.0)
    # BERT on 8 GPUs of a server: 1.702 ms of communication beside 1.71 ms of compute.
    bert = (slow.num_gpus == 8) & (slow.profile == 5)
    np.testing.assert_allclose(stretch[bert], 1.0 + 1.702 / 1.71, rtol=1e-3)


@pytest.mark.parametrize("network", ["none", "tiered_rings"])
def test_the_load_is_of_what_jobs_take_on_the_network(network: str):
    jobs = window(workload("dally_poisson", "load=0.8", network=network))
    assert jobs.num_gpus @ jobs.duration_s / jobs.submit_s[-1] == pytest.approx(0.8 * 128)


def test_fewer_jobs_are_a_sample_and_models_are_those_of_the_catalogue():
    jobs = window(workload("dally_batch", "num_jobs=80", "max_gang=8"))
    assert len(jobs) == 80
    assert jobs.num_gpus.max() <= 8
    assert len(set(jobs.profile.tolist())) == 6


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("num_jobs=501", r"num_jobs is 501; the mix has 500"),
        ("thin=8", r"thin is 8"),
        ("load=0.9", r"load has no meaning"),
        ("mix.sigma=-1", r"mix.sigma is -1.*0 or more"),
        ("mix.mean_gap_s=0", r"mean_gap_s is 0.*above 0"),
        ("mix.gang_correlation=2", r"gang_correlation is 2.*from -1 to 1"),
        ("mix.gang_counts=[1,2]", r"2 numbers \[1, 2\] for 9 gangs"),
    ],
)
def test_bad_values_are_refused(override: str, told: str):
    with refusal(told):
        workload("dally_batch", override)


def test_a_mix_of_one_job():
    mix = PublishedMix(
        gang_sizes=[4], gang_counts=[1], models=["vgg11"], model_shares=[1.0], median_s=60.0,
        sigma=1.0, bend=0.0, gang_correlation=0.0, mean_gap_s=5.0,
    )  # fmt: skip
    trace = draw_published(mix, np.random.default_rng(0), "one")
    assert (trace.num_gpus[0], trace.duration_s[0], trace.submit_s[0]) == (4, 60.0, 0.0)


class Named:
    """Hands out what it was asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def window(self, *, part, index, setting, seed):
        return self.name, part, index, setting, seed


def test_windows_come_in_turn_each_from_its_own_stream():
    mixed = MixedWorkload(name="m", load=None, of={"a": Named("A"), "b": Named("B")})
    asked = [mixed.window(part="train", index=i, setting=None, seed=7) for i in range(3)]
    assert [got[0] for got in asked] == ["A", "B", "A"]
    assert [got[2] for got in asked] == [0, 1, 2]
    assert {got[1] for got in asked} == {"train"}
    assert {got[4] for got in asked} == {7}


def test_a_mix_takes_random_windows_of_something_only():
    cut = Named("A")
    cut.windows_from = "disjoint"
    with pytest.raises(TraceError, match=r"workload\.of\.a\.windows_from is 'disjoint'"):
        MixedWorkload(name="m", load=None, of={"a": cut, "b": Named("B")})
    with pytest.raises(TraceError, match=r"workload\.of is empty"):
        MixedWorkload(name="m", load=None, of={})
    with pytest.raises(TraceError, match="m has windows only"):
        MixedWorkload(name="m", load=None, of={"a": Named("A")}).whole(setting=None, seed=0)


MIX = {
    "row_s": 100.0, "arrival_prob": 0.5, "shares": [0.5, 0.1, 0.2, 0.2], "most_rows": 30,
    "length_bounds": [0.3, 0.4, 0.8, 1.0], "most_gpus": 8, "gang_bounds": [0.2, 0.3, 0.6, 1.0],
}  # fmt: skip


def test_classes_have_their_shares_and_bounds():
    rng = np.random.default_rng(0)
    rows, gangs = YorkMix(**MIX).lengths(20_000, rng), YorkMix(**MIX).gangs(20_000, rng)
    assert (rows.min(), rows.max()) == (1, 30)
    assert np.mean(rows <= 9) == pytest.approx(0.5, abs=0.02)
    assert np.mean(rows > 24) == pytest.approx(0.2, abs=0.02)
    shares = np.bincount(gangs, minlength=9)[1:] / len(gangs)
    assert shares == pytest.approx([0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05], abs=0.02)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"arrival_prob": 0.0}, r"arrival_prob is 0\.0; it must be above 0"),
        ({"length_bounds": [0.5, 0.4, 0.8, 1.0]}, "length_bounds"),
        ({"gang_bounds": [0.5, 1.0]}, "4 shares up to 1"),
    ],
)
def test_impossible_mixes_are_refused(given, rule):
    with pytest.raises(TraceError, match=rule):
        YorkMix(**{**MIX, **given})


def test_windows_are_drawn_anew_and_work_is_the_time_on_compact_gpus():
    made = workload("topdrl_york", network="york", on=YORK)
    profiles = instantiate(composed("workload=topdrl_york", *YORK).profiles, _convert_="all")
    where = setting(gpus=32, catalogue=profiles, gpu_types=("p100",))
    jobs, again, other = (
        made.window(part="test", index=index, setting=where, seed=1) for index in (0, 0, 1)
    )
    assert np.array_equal(jobs.duration_s, again.duration_s)
    assert not np.array_equal(jobs.duration_s, other.duration_s)
    for gang, factor in ((1, 0.775), (8, 1.2)):
        rows = jobs.duration_s[jobs.num_gpus == gang] / (241.5 * factor)
        assert len(rows) and rows == pytest.approx(np.round(rows)) and rows.max() <= 30


def test_the_costs_of_another_network_are_refused():
    with pytest.raises(InstantiationException, match="add network=york"):
        workload("topdrl_york", on=YORK)
