"""Jobs that arrive at the partition of their virtual cluster."""

from dataclasses import replace

import numpy as np
import pytest

import gpuyard
from sim.errors import TraceError
from sim.traces.prepare import homes_by_vc
from sim.traces.setting import Owners
from tests.traces.trace_samples import trace_of

TWO = np.array([8, 8])


def test_virtual_clusters_are_dealt_by_their_work():
    made = trace_of(range(4), num_gpus=[4, 1, 2, 1], vc="abcb")  # a: 4 GPUs, b: 1 + 1, c: 2
    found = homes_by_vc(made, Owners(partition_gpus=TWO, of_group={}))
    assert found.tolist() == [0, 1, 1, 1]


def test_parts_of_gpus_are_dealt_as_parts():
    parts = np.array([100, 1000, 1000, 1000])  # a: 0.4 GPUs, b: 1 + 1, c: 2
    made = replace(trace_of(range(4), num_gpus=[4, 1, 2, 1], vc="abcb"), gpu_milli=parts)
    found = homes_by_vc(made, Owners(partition_gpus=TWO, of_group={}))
    assert found.tolist() == [0, 0, 1, 0]


def test_a_group_of_servers_takes_the_virtual_cluster_of_its_name():
    made = trace_of(range(4), num_gpus=[4, 1, 2, 1], vc="abcb")
    found = homes_by_vc(made, Owners(partition_gpus=TWO, of_group={"b": 0, "a": 1}))
    assert found.tolist() == [1, 0, 0, 0]


def test_jobs_that_name_none_are_refused():
    with pytest.raises(TraceError, match=r"agents\.homes=drawn"):
        homes_by_vc(trace_of([0]), Owners(partition_gpus=TWO, of_group={}))


def test_any_run_can_have_them(tmp_path):
    path = tmp_path / "jobs.csv"
    rows = [f"{job},{job},1,60,{'ab'[job % 2]}" for job in range(8)]
    path.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s,vc", *rows]) + "\n")
    words = ["agents.homes=vc", "workload.columns.vc=vc"]
    run = gpuyard.simulate(path, "small_leaf_spine", "fifo", agents=2, overrides=words)
    assert run.jobs["home"].tolist() == [0, 1] * 4
