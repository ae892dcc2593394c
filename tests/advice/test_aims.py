"""What rows are ranked by: blocks, aims and their bootstrap, and what happened, by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.advice import aims
from gpuyard.advice.answer import table_of
from gpuyard.advice.sentences import interval_of
from sim.jobs import COMPLETED, FAILED, Identity, JobTable
from sim.report.timeline import forlorn
from sim.run import Kind
from tests.sim.worlds import Job, cluster, fates, job_table, parts, waiting

OFF = ["interference=none", "network=none"]
FIFO = "lineup.entries=[{role: composite, overrides: ['scheduler=fifo']}]"
ONCE = np.ones((1, 2))

TOLD = aims.FinishedJobs(
    block=np.array([0, 0, 1, 1]),
    jct_s=np.array([10.0, 20.0, 30.0, 100.0]),
    wait_s=np.array([0.0, 5.0, 10.0, 50.0]),
    slowdown=np.array([1.0, 1.0, 3.0, 3.0]),
    large=np.array([False, True, False, True]),
    user=np.array([0, 0, 1, 1]),
    busy_gpu_s=np.array([50.0, 150.0]),
    offered_gpu_s=np.array([100.0, 300.0]),
    lost_gpu_h=np.array([1.0, 2.0]),
)


def table(num_gpus: list[int]) -> JobTable:
    return job_table([Job(10.0 * row, gang, 20.0) for row, gang in enumerate(num_gpus)])


def test_aims_of_four_jobs_where_draws_weigh_whole_blocks():
    found = {key: values[0] for key, values in aims.measured(TOLD, ONCE).items()}
    expected = {
        "jct_mean_s": 40.0, "jct_p95_s": np.percentile(TOLD.jct_s, 95), "large_gang_wait_s": 27.5,
        "user_fairness": (1 + 3) ** 2 / (2 * (1 + 9)), "gpu_util_frac": 0.5, "lost_gpu_h": 3.0,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    twice = aims.measured(TOLD, np.array([[1.0, 1.0], [2.0, 0.0]]))
    expected = {"jct_mean_s": 15.0, "jct_p95_s": 20.0, "user_fairness": 1.0, "gpu_util_frac": 0.5}
    assert {key: twice[key][1] for key in expected} == expected  # one user is left
    nobody = aims.measured(replace(TOLD, user=np.full(4, -1)), ONCE)
    assert np.isnan(nobody["user_fairness"][0])
    draws = aims.draws_of(20)  # the same for all; the first counts each block once
    assert (draws[0] == 1).all() and (draws.sum(axis=1) == 20).all()
    assert np.array_equal(draws, aims.draws_of(20))


def test_intervals_over_few_blocks_hold_as_often_as_they_say():
    rng, held = np.random.default_rng(1), 0
    for _ in range(200):  # five blocks of four jobs, whose JCTs have the mean 10
        jct_s = rng.lognormal(np.log(10.0) - 0.02, 0.2, 20)
        told = replace(
            TOLD, jct_s=jct_s, wait_s=jct_s, slowdown=jct_s, block=np.repeat(np.arange(5), 4),
            user=np.zeros(20, dtype=np.int64), large=np.zeros(20, dtype=np.bool_),
            busy_gpu_s=np.ones(5), offered_gpu_s=np.ones(5), lost_gpu_h=np.zeros(5),
        )  # fmt: skip
        low, high = interval_of(aims.bootstrapped(told, 5)["jct_mean_s"], 0.95)
        held += low <= 10.0 <= high
    assert held >= 182  # percentiles alone: about 168


def test_blocks_hold_equally_many_measured_jobs():
    submit_s = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 99.0])
    some = np.array([False, True, True, True, True, True])
    blocks = aims.blocks_of(submit_s, some, 2)
    assert blocks.of_job.tolist() == [-1, 0, 0, 0, 1, 1]
    assert blocks.edge_s.tolist() == [1.0, 51.0, 99.0]
    assert aims.blocks_of(submit_s, some, 20).count == 5


def test_a_lease_that_is_renewed_at_once_is_no_stop():
    """One long job alone under Dally, whose leases end; LAS makes two take turns."""
    jobs = pd.DataFrame({"job_id": ["a"], "submit_s": [0], "num_gpus": [1], "duration_s": [9e4]})
    run = gpuyard.simulate(jobs, "small_leaf_spine", "dally", overrides=OFF).raw
    assert (run.log.kind == Kind.EXPIRE).sum() > 1 and aims.stops_of(run) == 0
    both = pd.concat([jobs, jobs.assign(job_id="b", submit_s=1)]).assign(num_gpus=64)
    turns = gpuyard.simulate(both, "small_leaf_spine", "las", overrides=OFF).raw
    assert aims.stops_of(turns) == (turns.log.kind == Kind.PREEMPT).sum() > 0


def test_a_child_of_what_happened_waits_from_its_parents_end_and_none_of_the_lost_counts():
    jobs = table([4, 4, 2, 2])  # at 0, 10, 20 and 30 s, 20 s each
    jobs = replace(jobs, **waiting((), (0,), (), (2,), workflow=(0, 0, 1, 1)))
    waited_s = np.array([0.0, 15.0, np.nan, 3.0])  # the parent of the last one never ran
    blocks = aims.blocks_of(jobs.submit_s, jobs.measured, 1)
    told = aims.finished_of_trace(jobs, waited_s, cluster(2, 4), blocks, 8)
    assert told.jct_s.tolist() == [20.0, 35.0, 23.0]
    assert told.wait_s.tolist() == [0.0, 5.0, 0.0]  # of 15 s it waited 10 for its parent
    assert told.slowdown.tolist() == [1.0, 1.25, 1.0]
    ends = [FAILED, COMPLETED, COMPLETED, COMPLETED]
    fated = replace(jobs, **fates(*[np.inf] * 4, outcome=ends))
    assert forlorn(fated).tolist() == [False, True, False, False]
    chain = waiting((), (0,), (1,), (2,))
    assert forlorn(replace(fated, **chain)).tolist() == [False, True, True, True]
    assert not forlorn(jobs).any()


def test_a_log_whose_children_ran_though_parents_failed_is_compared_on_the_jobs_that_are_played():
    """Two GPUs are enough for all: everybody starts at once, as the log has it."""
    rows = {"job_id": [f"j{k}" for k in range(40)], "submit_s": np.arange(40) * 100.0}
    jobs = pd.DataFrame(rows).assign(num_gpus=1, duration_s=50.0, waited_s=0.0)
    jobs["parents"] = ["" if k % 4 else f"j{k - 4}" if k else "" for k in range(40)]
    jobs["outcome"] = ["failed" if k == 20 else "completed" for k in range(40)]
    found = gpuyard.advise(jobs, "small_leaf_spine", overrides=[*OFF, FIFO]).frame
    rows = found[found["scheduler"].isin(["what_happened", "fifo+consolidated"])]
    assert rows["jobs"].tolist() == [36, 36] and rows["jobs_withdrawn"].tolist() == [4, 4]
    assert rows["jct_mean_s"].tolist() == [50.0, 50.0]


def test_who_was_given_up_without_any_work_counts_neither_as_played_nor_as_it_happened():
    """Jobs of 50 s each; every fourth was given up at once, and the log has a start of it."""
    rows = {"job_id": [f"j{k}" for k in range(40)], "submit_s": np.arange(40) * 100.0}
    jobs = pd.DataFrame(rows).assign(num_gpus=1, waited_s=0.0)
    jobs["duration_s"] = [0.0 if k % 4 == 1 else 50.0 for k in range(40)]
    jobs["withdraw_s"] = [5.0 if k % 4 == 1 else None for k in range(40)]
    found = gpuyard.advise(jobs, "small_leaf_spine", overrides=[*OFF, FIFO]).frame
    rows = found[found["scheduler"].isin(["what_happened", "fifo+consolidated"])]
    assert rows["jobs"].tolist() == [30, 30] and rows["jobs_withdrawn"].tolist() == [10, 10]
    assert rows["jct_mean_s"].tolist() == [50.0, 50.0]


def test_a_user_of_whom_nothing_finishes_is_told_beside_the_fairness_of_the_others():
    rows = {"job_id": ["a1", "b1", "a2", "b2"], "submit_s": [0, 10, 1000, 1010]}
    jobs = pd.DataFrame(rows).assign(num_gpus=64, duration_s=1000.0)
    jobs["user"], jobs["withdraw_s"] = ["alice", "bob"] * 2, [None, 500.0] * 2
    found = gpuyard.advise(jobs, "small_leaf_spine", overrides=[*OFF, FIFO])
    fifo = found.frame.set_index("scheduler").loc["fifo+consolidated"]
    assert fifo["user_fairness"] == 1.0 and fifo["users_unserved"] == 1
    told = "no job finished are not in fairness either: fifo+consolidated 1."
    assert told in table_of(found).note


def test_users_who_are_served_at_once_on_the_gpu_types_that_they_asked_for_are_equal():
    rows = {"job_id": [f"j{k}" for k in range(40)], "submit_s": np.arange(40) * 1000.0}
    jobs = pd.DataFrame(rows).assign(num_gpus=1, duration_s=500.0, waited_s=0.0)
    jobs["user"], jobs["gpu_types"] = ["alice", "bob"] * 20, ["v100", "p100"] * 20
    words = ["topology.gpu_types=[v100,p100]", "reference_gpu=asked", *OFF, FIFO]
    found = gpuyard.advise(jobs, "small_leaf_spine", overrides=words).frame
    rows = found[found["scheduler"].isin(["what_happened", "fifo+consolidated"])]
    assert rows["user_fairness"].tolist() == pytest.approx([1.0, 1.0])
    assert rows["jct_mean_s"].tolist() == pytest.approx([500.0, 500.0])


def test_what_happened_by_hand():
    jobs = table([4, 8, 2])  # at 0, 10 and 20 s, 20 s each
    identity = Identity(np.array([0, 1, 1]), np.zeros(3, dtype=int), np.zeros(3, dtype=int))
    jobs = replace(jobs, identity=identity)
    waited_s = np.array([0.0, 10.0, np.nan])  # the last never began
    blocks = aims.blocks_of(jobs.submit_s, jobs.measured, 1)
    large = aims.large_gang(jobs, cluster(2, 4), None)
    told = aims.finished_of_trace(jobs, waited_s, cluster(2, 4), blocks, large)
    assert told.jct_s.tolist() == [20.0, 30.0]
    assert told.large.tolist() == [False, True]  # more than a server of four
    assert told.slowdown.tolist() == [1.0, 1.5]
    assert told.busy_gpu_s.tolist() == [80.0] and told.offered_gpu_s.tolist() == [160.0]
    assert aims.peak_gpus(jobs, waited_s) == 8
    halves = replace(jobs, **parts(500, 500, 1000))
    assert aims.peak_gpus(halves, waited_s) == 4
    told = aims.finished_of_trace(halves, waited_s, cluster(2, 4), blocks, large)
    assert told.busy_gpu_s.tolist() == [40.0]
    assert aims.large_gang(table([1, 4]), cluster(2, 4), None) == 4
    assert aims.large_gang(table([1, 2]), cluster(2, 4), None) == 2
    assert aims.large_gang(table([1, 2]), cluster(2, 4), 3) == 3
