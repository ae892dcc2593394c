"""Attempts, and what single GPUs and partitions saw."""

import numpy as np
import pytest

from sim.report.gpu_use import attempts_of, busy_frac_by_gpu, down_frac_by_gpu, queue_by_partition
from sim.report.timeline import queue_over_time


def test_attempts_of_the_gantt_chart(gantt):
    attempts = attempts_of(gantt)
    rows = zip(
        attempts.job.tolist(), attempts.number.tolist(), attempts.start_s, attempts.end_s,
        strict=True,
    )  # fmt: skip
    assert list(rows) == [
        (0, 1, 0, 20), (2, 1, 10, 15), (3, 1, 10, 40), (4, 1, 15, 35), (1, 1, 20, 30),
        (2, 2, 30, 40),
    ]  # fmt: skip
    assert not attempts.open.any()
    assert gantt.log.gpus[attempts.start_event[1]].tolist() == [2, 3]


def test_an_attempt_that_the_run_cuts_off_is_open(cut_off):
    attempts = attempts_of(cut_off)
    assert attempts.end_s.tolist() == [30.0, 30.0]
    assert attempts.open.tolist() == [False, True]


def test_a_job_of_no_time_has_an_attempt_of_no_time(hand):
    run = hand.build_run([hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),))], 1, 1, 1)
    attempts = attempts_of(run)
    assert (attempts.start_s.tolist(), attempts.end_s.tolist()) == ([3.0], [3.0])


def test_busy_time_of_each_gpu(gantt):
    assert busy_frac_by_gpu(gantt, start_s=0.0, end_s=40.0) * 40 == pytest.approx([40, 30, 30, 25])
    assert busy_frac_by_gpu(gantt, start_s=20.0, end_s=30.0) == pytest.approx([1, 0, 1, 1])
    assert busy_frac_by_gpu(gantt, start_s=36.0, end_s=36.0).tolist() == [1, 1, 1, 0]
    assert down_frac_by_gpu(gantt, start_s=0.0, end_s=40.0).tolist() == [0, 0, 0, 0]


def test_queues_of_partitions_follow_jobs_that_are_forwarded(hand):
    """A runs in partition 0 while B waits there 2-6, is forwarded to 1 and waits on until 9."""
    job = hand.Job
    jobs = [
        job(0.0, 20.0, ((0.0, 20.0, [0]),)),
        job(2.0, 5.0, ((9.0, 14.0, [1]),), home=1, forwarded_s=(6.0,)),
    ]
    run = hand.build_run(jobs, servers=2, gpus_per_server=1, partitions=2)
    run.log.partition[np.flatnonzero((run.log.job == 1) & (run.log.time_s == 2.0))] = 0
    first, second = queue_by_partition(run)
    times = np.array([1.0, 3.0, 7.0, 10.0])
    assert first.at(times).tolist() == [0, 1, 0, 0]
    assert second.at(times).tolist() == [0, 0, 1, 0]


def test_queues_of_partitions_sum_to_the_queue(gantt):
    times = np.linspace(0, 40, 81)
    total = sum(steps.at(times) for steps in queue_by_partition(gantt))
    assert total == pytest.approx(queue_over_time(gantt).at(times))
