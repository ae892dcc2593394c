"""Jobs with parents, ends and GPU types of their own, as `gpuyard` plays and measures them."""

import logging

import pandas as pd
import pytest

import gpuyard

OFF = ["interference=none", "network=none"]


def jobs_of(**columns: list[object]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    told = {
        "job_id": [f"j{k}" for k in range(rows)], "submit_s": [10.0 * k for k in range(rows)],
        "num_gpus": [64] * rows, "duration_s": [100.0] * rows,
    }  # fmt: skip
    return pd.DataFrame(told | columns)


def test_waiting_for_a_parent_is_no_waiting_for_gpus():
    """64 GPUs: j1 waits for j0's end at 100, then for j2, which came first, till 200."""
    jobs = jobs_of(parents=["", "j0", ""], num_gpus=[8, 64, 64], duration_s=[100.0, 100.0, 150.0])
    run = gpuyard.simulate(jobs, "small_leaf_spine", "fifo", overrides=OFF)
    rows = run.jobs.set_index("job_id")
    assert rows["jct_s"].tolist() == [100.0, 190.0, 330.0]
    assert rows["queue_delay_s"].tolist() == [0.0, 0.0, 180.0]
    assert run.metrics["slowdown_mean"] == pytest.approx((1.0 + 1.0 + 330 / 150) / 3)


def test_who_is_not_played_is_told():
    jobs = jobs_of(parents=["", "j0", ""], outcome=["failed", "completed", "completed"])
    run = gpuyard.simulate(jobs, "small_leaf_spine", "fifo", overrides=OFF)
    assert "jobs_withdrawn" in str(run)
    assert "jobs_withdrawn" not in str(
        gpuyard.simulate(jobs.drop(columns="outcome"), "small_leaf_spine", "fifo", overrides=OFF)
    )


def test_dependencies_on_jobs_left_out_are_counted(caplog: pytest.LogCaptureFixture):
    jobs = jobs_of(parents=["", "j0", "j0;j1"], num_gpus=[999, 1, 1])
    with caplog.at_level(logging.WARNING):
        run = gpuyard.simulate(
            jobs, "small_leaf_spine", "fifo", overrides=[*OFF, "workload.drop_too_large=true"]
        )
    assert "2 dependencies are on jobs left out, for which nobody waits" in caplog.text
    assert run.jobs["jct_s"].tolist() == [100.0, 190.0]


MIXED = ["topology.gpu_types=[v100,p100]", *OFF]


@pytest.mark.parametrize(("reference", "slow"), [("asked", 1.0), ("null", 1.05), ("p100", 1.0)])
def test_durations_may_be_of_the_type_that_a_job_asks_for(
    caplog: pytest.LogCaptureFixture, reference: str, slow: float
):
    jobs = jobs_of(num_gpus=[1, 1, 1], gpu_types=["v100", "p100", "p100"])
    with caplog.at_level(logging.WARNING):
        run = gpuyard.simulate(
            jobs, "small_leaf_spine", "fifo", overrides=[*MIXED, f"reference_gpu={reference}"]
        )
    run_s = run.jobs["run_s"].to_numpy()
    if reference == "p100":
        assert run_s[0] < 100.0
    else:
        assert run_s[0] == pytest.approx(100.0)
    if slow == 1.0:
        assert run_s[1:].tolist() == pytest.approx([100.0, 100.0])
    else:
        assert (run_s[1:] > 105.0).all()  # shipped profiles: a P100 is the slower one
    told = "2 jobs ask for another GPU type than v100"
    assert (told in caplog.text) == (reference == "null")


def test_windows_that_overlap_are_told():
    jobs = jobs_of(num_gpus=[1] * 400)
    words = ["workload.num_jobs=300", "workload.thin=1", *OFF]
    found = gpuyard.evaluate(
        jobs, "small_leaf_spine", ["fifo"], part="all", windows=3, overrides=words
    )
    assert "3 windows of 300 in a row of 400 jobs overlap" in str(found.assumed)
