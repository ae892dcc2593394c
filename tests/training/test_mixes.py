"""Mixes of settings, and the windows that are played on them."""

import numpy as np
import pytest
from hydra import initialize_config_dir

from gpuyard.launch.errors import CONF, ConfigError
from gpuyard.training.setting import source_spec_of
from gpuyard.training.windows import check_cells, open_source
from tests.contract.compositions import resolved


@pytest.mark.parametrize(
    ("mix", "told"),
    [
        ([], r"mix is \[\]"),
        ("both", "mix is 'both'"),
        ([{"agents": 2, "load": 0.9}], "mix holds .*windows"),
        ([{"agents": 2, "load": 0, "windows": 1}], "load: 0"),
        ([{"agents": 0, "load": 1, "windows": 1}], "agents in mix is 0"),
        ([{"agents": 2, "load": 1, "windows": 1, "gpu_type": 7}], "gpu_type: 7"),
        ([{"agents": 2, "load": 1, "windows": 1, "workload": 7}], "workload: 7; .* philly_like"),
        (
            [{"agents": 2, "load": 1, "windows": 1, "worklod": "a"}],
            "estimator, gpu_type, network, topology, wor",
        ),
    ],
)
def test_a_mix_that_is_none_is_refused(mix, told):
    with pytest.raises(ConfigError, match=told):
        check_cells(mix)


def opened_of(*words: str):
    """What is played on of a learning with these words."""
    return open_source(source_spec_of(resolved("learn", *words)).setting)


def test_no_two_settings_of_a_mix_are_played_on_one_window():
    mix = "mix=[{agents: 2, load: 0.9, windows: 2}, {agents: 4, load: 1.1, windows: 1}]"
    opened = opened_of(mix, "workload.num_jobs=40")
    windows = [opened.window("validation", index) for index in range(6)]
    assert len({tuple(jobs.duration_s) for jobs in windows}) == len(windows)
    worlds = [opened.simulator("validation", n, jobs) for n, jobs in enumerate(windows)]
    assert [len(world.state.partition) for world in worlds] == [2, 2, 4] * 2


def test_settings_of_a_mix_may_have_jobs_predictions_and_clusters_of_their_own():
    own = (
        "{agents: 2, load: 1.1, windows: 1, workload: philly_like, estimator: oracle,"
        " topology: headline_vl2, network: max_min, gpu_type: v100}"
    )
    words = [f"mix=[{{agents: 2, load: 0.9, windows: 1}}, {own}]", "workload.num_jobs=40"]
    config = resolved("learn", *words)
    with initialize_config_dir(str(CONF), version_base=None):
        opened = open_source(source_spec_of(config, words).setting)
        with pytest.raises(ConfigError, match="philly_lik"):
            cell = {"agents": 2, "load": 1.1, "windows": 1, "workload": "philly_lik"}
            source_spec_of({**config, "mix": [cell]}, words)
    venus, philly = opened.experiments
    assert (venus.workload.name, philly.workload.name) == ("venus_like", "philly_like")
    assert (venus.load, philly.load) == (0.9, 1.1)
    names = [each.world.topology.name for each in opened.experiments]
    assert names == ["headline_leaf_spine", "headline_vl2"]
    assert [each.world.topology.gpu_types for each in opened.experiments] == [("p100",), ("v100",)]
    assert [each.world.physics.links is None for each in opened.experiments] == [True, False]
    jobs = [opened.window("validation", index) for index in range(2)]
    assert [len(each) for each in jobs] == [40, 40]
    assert np.array_equal(jobs[1].estimate_s, jobs[1].duration_s)
    assert not np.array_equal(jobs[0].estimate_s, jobs[0].duration_s)


def test_so_many_training_windows_are_drawn_once_and_played_again():
    mix = "mix=[{agents: 2, load: 0.9, windows: 1}, {agents: 2, load: 1.1, windows: 1}]"
    opened = opened_of(mix, "workload.num_jobs=40", "train_windows=3")
    windows = [opened.window("train", index) for index in range(8)]
    assert windows[6] is windows[0] and windows[7] is windows[1]
    assert len({tuple(jobs.duration_s) for jobs in windows}) == 6
    held_out = [opened.window("validation", index) for index in range(8)]
    assert len({tuple(jobs.duration_s) for jobs in held_out}) == 8
