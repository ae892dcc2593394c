"""Jobs of a virtual cluster arrive at one partition."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpuyard.advice.room import homes_by_vc
from gpuyard.launch.errors import ConfigError
from sim.topology.generators import leaf_spine
from sim.traces.trace import Trace
from tests.advice.test_aims import table

CLUSTER = leaf_spine(
    name="two", servers=2, gpus_per_server=4, servers_per_rack=2, gpu_types=["v100"],
    intra_gbps=300.0, nic_gbps=100.0, oversubscription=1, spines=1,
)  # fmt: skip


def game(*, groups: list[str] | None = None) -> SimpleNamespace:
    """Two partitions of a server each."""
    named = None if groups is None else np.array(groups, dtype=object)
    return SimpleNamespace(
        topology=replace(CLUSTER, server_group=named),
        partition_of_server=np.array([0, 1]),
        partitions=2,
    )


def trace(vc: list[str]) -> Trace:
    jobs = table([1] * len(vc))
    return Trace(
        name="made", job_id=jobs.job_id, submit_s=jobs.submit_s, num_gpus=jobs.num_gpus,
        duration_s=jobs.duration_s, user=jobs.job_id, vc=np.array(vc, dtype=object),
    )  # fmt: skip


def test_virtual_clusters_are_dealt_by_their_work():
    jobs = table([4, 1, 2, 1])  # of vc a: 4 GPUs, b: 1 + 1, c: 2
    found = homes_by_vc(jobs, game(), trace(["a", "b", "c", "b"]))
    assert found.tolist() == [0, 1, 1, 1]


def test_a_group_of_servers_takes_the_virtual_cluster_of_its_name():
    jobs = table([4, 1, 2, 1])
    found = homes_by_vc(jobs, game(groups=["b", "a"]), trace(["a", "b", "c", "b"]))
    assert found.tolist() == [1, 0, 0, 0]


def test_jobs_that_name_none_are_refused():
    with pytest.raises(ConfigError, match=r"homes=drawn"):
        homes_by_vc(table([1]), game(), trace([""]))
