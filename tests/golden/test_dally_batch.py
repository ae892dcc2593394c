"""Dally's batch in small: on a congested network it ends no later than waiting for compactness."""

from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import contiguous_partitions
from sim.traces.estimators import NoEstimator
from sim.traces.setting import Setting
from tests.contract.compositions import CONF, made
from tests.sim.worlds import rules_of

SEEDS = range(3)
CONSOLIDATION = ("scheduler=fifo", "scheduler.skip_blocked=true", "placer=consolidated")


@pytest.fixture(scope="module")
def worlds() -> list[dict[str, Any]]:
    """Arguments of `Simulator`: 100 jobs of the batch on 32 GPUs, congested, by seed."""
    small = ["topology.servers=4", "topology.servers_per_rack=2", "workload.max_gang=16"]
    jobs = ["workload.num_jobs=100", "workload.max_duration_s=40000"]
    overrides = ["experiment=dally_batch", "topology=dally_2x4", *small, *jobs]
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(config_name="evaluate", overrides=overrides)
    OmegaConf.resolve(config)
    topology, catalogue, network, workload = (
        instantiate(config[key], _convert_="all")
        for key in ("topology", "profiles", "network", "workload")
    )
    physics = Physics(
        catalogue=catalogue,
        pairs=NoInterference().pair_table(catalogue),
        network=network.tables(catalogue, topology),
        reference_gpu="v100",
    )
    setting = Setting(gpus=32, partitions=1, skew=0.0, catalogue=catalogue, estimator=NoEstimator())
    fixed = {
        "topology": topology,
        "physics": physics,
        "belief": physics,
        "partition_of_server": contiguous_partitions(topology, 1),
        "rules": rules_of(restart_s_per_gpu=1.0),
        "outages": NO_OUTAGES,
    }
    return [
        {**fixed, "jobs": workload.window(part="test", index=seed, setting=setting, seed=0)}
        for seed in SEEDS
    ]


def runs(worlds: list[dict[str, Any]], *overrides: str) -> list[Run]:
    scheduler = made(*overrides)
    return [simulate(Simulator(**each), scheduler, 0, None) for each in worlds]


@pytest.mark.parametrize("ideal", ["no_network", "compact"])  # as published, and ours
def test_dally_ends_no_later_than_consolidation_and_communicates_less_than_without_waiting(
    worlds: list[dict[str, Any]], ideal: str
):
    words = ("scheduler=dally", f"scheduler.ideal={ideal}")
    dally = runs(worlds, *words)
    waits = runs(worlds, *CONSOLIDATION)
    hasty = runs(worlds, *words, "scheduler.timers=no_wait")
    end_s, other_s = ([run.finish_s.max() for run in each] for each in (dally, waits))
    assert np.mean(end_s) <= np.mean(other_s)
    comm_s, hasty_s = ([run.comm_s.sum() for run in each] for each in (dally, hasty))
    assert np.mean(comm_s) < np.mean(hasty_s)
