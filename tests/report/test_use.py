"""Attempts, what GPUs and partitions saw, fragmentation, fairness and energy, by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.api.running import Run as Played
from sim.report.balance import finish_time_rho
from sim.report.gpu_use import (
    attempts_of,
    busy_frac_by_gpu,
    down_frac_by_gpu,
    fragmentation_metrics,
    queue_by_partition,
    unusable_free_over_time,
    waits_of,
)
from sim.report.summary import energy_metrics, summarise
from sim.report.timeline import unusable_changes
from sim.run import Kind
from sim.topology.generators import leaf_spine
from sim.topology.topology import Watts


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


def test_an_attempt_that_the_run_cuts_off_is_open_and_one_of_no_time_is_one(hand, cut_off):
    attempts = attempts_of(cut_off)
    assert attempts.end_s.tolist() == [30.0, 30.0]
    assert attempts.open.tolist() == [False, True]
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


WATTS = {"p100": Watts(28, 250), "t4": Watts(10, 70)}


@pytest.fixture(scope="module")
def scattered(hand):
    """2 servers of 4 GPUs. Two jobs of 1 GPU hold one GPU of each server for 10 s.

    A gang of 4, submitted at 0, waits for a whole server until 10 and runs 10-20.
    """
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        job(0.0, 10.0, ((0.0, 10.0, [4]),)),
        job(0.0, 10.0, ((10.0, 20.0, [0, 1, 2, 3]),), gpus=4),
    ]
    return hand.build_run(jobs, servers=2, gpus_per_server=4, partitions=1)


def test_free_gpus_on_servers_too_full_for_the_gangs_of_the_workload(scattered):
    # 0-10: 3 + 3 GPUs free, of no use to a gang of 4, which is 1/3 of the jobs: 2 of 6 in the mean;
    # 10-20: the second server is free and of use to all
    steps = unusable_free_over_time(scattered, unusable_changes(scattered.log))
    assert steps.at(np.array([0.0, 5.0, 10.0, 15.0, 20.0])) == pytest.approx([2, 2, 0, 0, 0])
    metrics = fragmentation_metrics(scattered)
    assert metrics["fragmented_free_frac"] == pytest.approx(2 * 10 / (6 * 10 + 4 * 10))
    # 0-10: 6 GPUs free, a gang of 4 waits
    assert metrics["gpu_idle_while_fitting_frac"] == pytest.approx(60 / (8 * 20))


def test_what_jobs_wait_for(hand):
    # 2 partitions of 4 GPUs. The first is full until 10; the second is down from 4 to 6.
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1, 2, 3]),), gpus=4),
        job(0.0, 5.0, ((12.0, 17.0, [0, 1]),), gpus=2),  # free in the other until 10, then here
        job(2.0, 5.0, (), gpus=6, finished=False),  # larger than its partition
        job(3.0, 5.0, ((17.0, 22.0, [4]),), home=1, forwarded_s=(5.0,)),
    ]
    down = ((4.0, Kind.SERVER_DOWN, [4, 5, 6, 7]), (6.0, Kind.SERVER_UP, [4, 5, 6, 7]))
    run = hand.build_run(jobs, 2, 4, partitions=2, server_events=down)
    waits = waits_of(run)
    assert waits.job.tolist() == [0, 1, 2, 3, 3]
    assert waits.too_few_s == pytest.approx([0, 2, 8, 1, 1])
    assert waits.elsewhere_s == pytest.approx([0, 8, 12, 0, 0])
    assert waits.held_back_s == pytest.approx([0, 2, 0, 1, 11])


def test_gangs_larger_than_what_is_free_are_no_fragmentation_nor_gpus_that_are_down(hand):
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1]),), gpus=2),
        job(0.0, 10.0, ((10.0, 20.0, [0, 1, 2]),), gpus=3),
    ]
    run = hand.build_run(jobs, servers=1, gpus_per_server=4, partitions=1)
    assert fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == 0.0
    jobs = [job(0.0, 10.0, ((0.0, 10.0, [0]),)), job(0.0, 5.0, ((10.0, 15.0, [0]),))]
    run = hand.build_run(jobs, 2, 2, 1, ((0.0, Kind.SERVER_DOWN, [2, 3]),))
    # one job of 1 GPU waits 0-10 while only GPU 1 is free
    assert fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == pytest.approx(10 / 60)


@pytest.mark.parametrize(("gang", "unusable"), [(8, 3 / 2), (4, 3 / 2), (6, 0), (5, 0), (3, 0)])
def test_what_a_gang_leaves_on_its_last_server_decides(hand, gang, unusable):
    """Servers of 4, one GPU of the first taken: a gang of 8 or 4 has no use for the 3 beside it.

    6 = 4 + 2, 5 = 4 + 1 and 3 have. The gang is half of the workload.
    """
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        job(0.0, 10.0, ((10.0, 20.0, list(range(gang))),), gpus=gang),
    ]
    run = hand.build_run(jobs, servers=3, gpus_per_server=4, partitions=1)
    steps = unusable_free_over_time(run, unusable_changes(run.log))
    assert float(steps.at(np.array([5.0]))[0]) == pytest.approx(unusable)


def test_finish_time_fairness_of_two_jobs_on_one_gpu(hand):
    """A 0-100, B 0-200 after it. A: 2 jobs, share 1/2, ideal 200, took 100.

    B: 1.5 jobs in the mean over 200 s, share 2/3, ideal 150, took 200.
    """
    job = hand.Job
    jobs = [job(0.0, 100.0, ((0.0, 100.0, [0]),)), job(0.0, 100.0, ((100.0, 200.0, [0]),))]
    run = hand.build_run(jobs, servers=1, gpus_per_server=1, partitions=1)
    assert finish_time_rho(run) == pytest.approx([0.5, 4 / 3])
    metrics = summarise(run)
    assert metrics["finish_time_rho_mean"] == pytest.approx((0.5 + 4 / 3) / 2)
    assert metrics["finish_time_rho_max"] == pytest.approx(4 / 3)
    assert metrics["finish_time_unfair_frac"] == 0.5
    assert finish_time_rho(hand.build_run(jobs[:1], 1, 4, 1)) == pytest.approx([1.0])  # alone


def small_run(**columns: list) -> Played:
    count = len(columns["submit_s"])
    jobs = {"job_id": [f"j{at}" for at in range(count)], "num_gpus": [1] * count, **columns}
    topology = leaf_spine(
        name="small", servers=1, gpus_per_server=4, servers_per_rack=1, gpu_types=("p100",),
        intra_gbps=3600, nic_gbps=400, oversubscription=1,
    )  # fmt: skip
    words = ["estimator=oracle", "interference=none", "network=none"]
    return gpuyard.simulate(pd.DataFrame(jobs), topology, "fifo", overrides=words)


def test_nobody_is_treated_unfairly_where_nobody_waits_but_for_parents():
    at = np.arange(300)  # a long trace of times that are no round numbers
    found = small_run(submit_s=1e6 + 977.123 * at, duration_s=123.457 + at / 7).metrics
    assert found["queue_delay_mean_s"] == 0.0 and found["finish_time_unfair_frac"] == 0.0
    found = small_run(submit_s=[0.0] * 2, duration_s=[1000.0] * 2, parents=["", "j0"]).metrics
    assert found["finish_time_rho_mean"] == found["finish_time_rho_max"] == 1.0


def test_the_share_of_a_part_of_a_gpu_is_a_part():
    """Ten halves of four GPUs: eight run at once, so each has more than its tenth; two wait."""
    run = small_run(submit_s=[0.0] * 10, duration_s=[1000.0] * 10, gpu_milli=[500] * 10)
    first = 1000.0 / (1000.0 * 0.5 / (4 / 10))  # among ten for its whole stay
    last = 2000.0 / (1000.0 * max(1.0, 0.5 / (4 / 6)))  # ten, then two: six in the mean
    assert run.jobs["gpu_milli"].tolist() == [500] * 10
    assert finish_time_rho(run.raw) == pytest.approx([first] * 8 + [last] * 2)


def test_energy_is_busy_and_idle_time_by_type_and_not_guessed_of_others(hand):
    """Server 0 (p100) has a job on one of its 2 GPUs for 3600 s, server 1 (t4) nothing."""
    jobs = [hand.Job(0.0, 3600.0, ((0.0, 3600.0, [0]),))]
    for types, events, kwh in (
        (("p100", "t4"), (), (250 + 28 + 2 * 10) / 1000),
        (("p100", "t4"), ((0.0, Kind.SERVER_DOWN, [2, 3]),), (250 + 28) / 1000),
        (("p100", "abacus"), (), np.nan),
    ):
        run = replace(hand.build_run(jobs, 2, 2, 1, events, types), watts=WATTS)
        assert energy_metrics(run)["energy_kwh"] == pytest.approx(kwh, nan_ok=True)
