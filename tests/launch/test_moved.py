"""Configurations of before the merges of modules build what they always built."""

import importlib

import pytest

import gpuyard
from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.moved import MOVED, new_name, with_new_names
from sim.placers.by_room import BestFit


def test_an_old_name_builds_the_same_object():
    assert isinstance(
        build({"placer": {"_target_": "sim.placers.best_fit.BestFit"}}, "placer"), BestFit
    )


def test_names_inside_are_followed_too_and_others_stay():
    found = with_new_names(
        {"a": [{"_target_": "sim.sharing.off.NoSharing"}], "b": "sim.sharing.off.X"}
    )
    assert found == {"a": [{"_target_": "sim.sharing.NoSharing"}], "b": "sim.sharing.off.X"}
    assert new_name("my_package.rules.Own") == "my_package.rules.Own"


def test_what_a_name_leads_to_exists_and_has_not_moved_on():
    for old, new in MOVED.items():
        importlib.import_module(new)
        assert new not in MOVED, old


def test_what_was_cut_says_what_to_use():
    section = {"model": {"_target_": "interference.learned.AdditiveInterference", "path": None}}
    with pytest.raises(ConfigError, match=r"AdditiveInterference is gone; use belief=linear"):
        build(section, "model")


def test_what_an_old_name_takes_for_granted_is_told_as_ever():
    old = "estimator._target_=sim.estimators.group_median.GroupMedian"
    words = ["workload.num_jobs=20", "estimator=group_median", old]
    run = gpuyard.simulate("venus_like", "small_leaf_spine", "sjf", overrides=words)
    assert "durations: predicted as the median of the group's finished runs" in run.assumed
