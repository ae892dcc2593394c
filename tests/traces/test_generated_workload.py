"""Windows of several workloads in turn."""

import numpy as np
import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import TraceError
from sim.traces.estimators import OracleEstimator
from sim.traces.published_workload import YorkMix
from sim.traces.setting import Setting
from sim.traces.workload import MixedWorkload
from tests.contract.compositions import CONF


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


def test_a_mix_takes_random_windows_only():
    cut = Named("A")
    cut.windows_from = "disjoint"
    with pytest.raises(TraceError, match=r"workload\.of\.a\.windows_from is 'disjoint'"):
        MixedWorkload(name="m", load=None, of={"a": cut, "b": Named("B")})


def test_a_mix_of_nothing_and_its_whole_are_refused():
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


def config():
    found = OmegaConf.merge(
        OmegaConf.load(CONF / "workload" / "_base.yaml"),
        OmegaConf.load(CONF / "workload" / "topdrl_york.yaml"),
    )
    whole = OmegaConf.create(
        {"workload": found, "network": OmegaConf.load(CONF / "network" / "york.yaml"),
         "topology": OmegaConf.load(CONF / "topology" / "topdrl_2x4x4.yaml"),
         "profiles": OmegaConf.load(CONF / "profiles" / "york.yaml")}
    )  # fmt: skip
    del whole.workload.defaults
    OmegaConf.resolve(whole)
    return whole


def test_windows_are_drawn_anew_and_work_is_the_time_on_compact_gpus():
    told = config()
    workload = instantiate(told.workload, _convert_="all")
    setting = Setting(
        gpus=32, partitions=1, skew=0.0, catalogue=instantiate(told.profiles, _convert_="all"),
        estimator=OracleEstimator(), gpu_types=("p100",),
    )  # fmt: skip
    jobs = workload.window(part="test", index=0, setting=setting, seed=1)
    again = workload.window(part="test", index=0, setting=setting, seed=1)
    other = workload.window(part="test", index=1, setting=setting, seed=1)
    assert np.array_equal(jobs.duration_s, again.duration_s)
    assert not np.array_equal(jobs.duration_s, other.duration_s)
    single = jobs.num_gpus == 1
    rows = jobs.duration_s[single] / (241.5 * 0.775)
    assert rows == pytest.approx(np.round(rows)) and rows.max() <= 30
    whole_servers = jobs.num_gpus == 8
    rows = jobs.duration_s[whole_servers] / (241.5 * 1.2)
    assert rows == pytest.approx(np.round(rows))


def test_the_costs_of_another_network_are_refused():
    told = config()
    told.workload.network = OmegaConf.load(CONF / "network" / "none.yaml")
    with pytest.raises(InstantiationException, match="add network=york"):
        instantiate(told.workload, _convert_="all")
