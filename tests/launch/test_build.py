"""Building objects from plain configuration: what reaches the target, and what is refused."""

import importlib
import re
from functools import partial

import pytest

import gpuyard
from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.targets import MOVED, new_name, with_new_names
from sim.placers.by_room import BestFit
from sim.topology.topology import Topology

SERVERS = {"_target_": "sim.topology.topology.contiguous_partitions", "count": 2}
TOPOLOGY = {
    "_target_": "sim.topology.generators.leaf_spine", "name": "t", "servers": 2,
    "gpus_per_server": 4, "servers_per_rack": 1, "gpu_types": ["p100"], "intra_gbps": 80,
    "nic_gbps": 10, "oversubscription": 2,
}  # fmt: skip


class Part: ...


class Own:
    def __init__(self, part: Part = None, *, other: Part):  # type: ignore[assignment]
        self.part, self.other = part, other


OWN = {"_target_": f"{__name__}.Own", "other": {"_target_": f"{__name__}.Part"}}
CONFIG = {
    "topology": TOPOLOGY, "agents": {"count": 1}, "split": SERVERS, "gone": {"_target_": "no.such"},
    "own": OWN | {"part": None}, "three": OWN | {"part": 3}, "none": OWN | {"other": None},
    "cut": {"_target_": "interference.learned.AdditiveInterference", "path": None},
}  # fmt: skip


def test_objects_reach_the_target_as_they_are():
    topology = build(CONFIG, "topology")
    assert type(topology) is Topology and type(topology.gpu_types) is tuple
    assert build({"a": {"b": SERVERS}}, "a.b", topology=topology).tolist() == [0, 1]


def test_containers_are_plain_and_a_partial_stays_one():
    made = build({"x": {"_target_": "builtins.dict", "inner": {"deep": [1]}}}, "x")
    assert type(made["inner"]) is dict and type(made["inner"]["deep"]) is list
    made = build({"x": {**SERVERS, "_partial_": True}}, "x")
    assert isinstance(made, partial) and made.keywords == {"count": 2}


@pytest.mark.parametrize(
    ("key", "given", "told"),
    [
        ("split", {}, "split: sim.topology.topology.contiguous_partitions needs topology"),
        ("topology", {"rate": 1}, "topology.rate: "),
        ("topology", {"serverz": 1}, "did you mean topology.servers?"),
        ("topolgy", {}, "has no 'topolgy'; it has 'topology'"),
        ("agents", {}, "has no _target_"),
        ("gone", {}, "no.such"),
        ("three", {}, "three.part is 3; it must be a"),
        ("none", {}, "none.other is None; it must"),
        ("cut", {}, "AdditiveInterference is gone; use belief=linear"),
    ],
)
def test_missing_unknown_and_absent_are_told_apart(key: str, given: dict[str, int], told: str):
    with pytest.raises(ConfigError, match=re.escape(told)):
        build(CONFIG, key, **given)


def test_the_default_of_a_parameter_may_be_said_whatever_its_hint():
    """Classes of users' own write `part: Part = None`."""
    assert build(CONFIG, "own").part is None


def test_configurations_of_before_the_merges_of_modules_build_what_they_always_built():
    old = {"placer": {"_target_": "sim.placers.best_fit.BestFit"}}
    assert isinstance(build(old, "placer"), BestFit)
    inside = {"a": [{"_target_": "sim.sharing.off.NoSharing"}], "b": "sim.sharing.off.X"}
    found = with_new_names(inside)
    assert found == {"a": [{"_target_": "sim.sharing.NoSharing"}], "b": "sim.sharing.off.X"}
    assert new_name("my_package.rules.Own") == "my_package.rules.Own"
    for name, new in MOVED.items():
        importlib.import_module(new)
        assert new not in MOVED, name  # it has not moved on


def test_what_an_old_name_takes_for_granted_is_told_as_ever():
    old = "estimator._target_=sim.estimators.group_median.GroupMedian"
    words = ["workload.num_jobs=20", "estimator=group_median", old]
    run = gpuyard.simulate("venus_like", "small_leaf_spine", "sjf", overrides=words)
    assert "durations: predicted as the median of the group's finished runs" in run.assumed
