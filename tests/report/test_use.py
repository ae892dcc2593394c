"""Fragmentation, finish-time fairness, energy and latency against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.api.running import Run as Played
from sim.report.balance import finish_time_rho
from sim.report.gpu_use import fragmentation_metrics, unusable_free_over_time, waits_of
from sim.report.summary import energy_metrics, summarise
from sim.report.timeline import unusable_changes
from sim.run import Kind
from sim.topology.generators import leaf_spine
from sim.topology.topology import Watts

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


def test_gpus_that_are_free_while_a_gang_waits_that_would_fit_their_number(scattered):
    # 0-10: 6 GPUs free, a gang of 4 waits
    assert fragmentation_metrics(scattered)["gpu_idle_while_fitting_frac"] == pytest.approx(
        60 / (8 * 20)
    )


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


def test_a_gang_larger_than_what_is_free_is_not_fragmentation(hand):
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1]),), gpus=2),
        job(0.0, 10.0, ((10.0, 20.0, [0, 1, 2]),), gpus=3),
    ]
    run = hand.build_run(jobs, servers=1, gpus_per_server=4, partitions=1)
    assert fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == 0.0


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


def test_gpus_of_a_server_that_is_down_are_not_free(hand):
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),)), hand.Job(0.0, 5.0, ((10.0, 15.0, [0]),))]
    events = ((0.0, Kind.SERVER_DOWN, [2, 3]),)
    run = hand.build_run(jobs, 2, 2, 1, events)
    # one job of 1 GPU waits 0-10 while only GPU 1 is free
    assert fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == pytest.approx(10 / 60)


def test_a_job_alone_is_treated_fairly(hand):
    run = hand.build_run([hand.Job(0.0, 100.0, ((0.0, 100.0, [0]),))], 1, 4, 1)
    assert finish_time_rho(run).tolist() == [pytest.approx(1.0)]


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


def small_run(**columns: list) -> Played:
    count = len(columns["submit_s"])
    jobs = {"job_id": [f"j{at}" for at in range(count)], "num_gpus": [1] * count, **columns}
    topology = leaf_spine(
        name="small", servers=1, gpus_per_server=4, servers_per_rack=1, gpu_types=("p100",),
        intra_gbps=3600, nic_gbps=400, oversubscription=1,
    )  # fmt: skip
    words = ["estimator=oracle", "interference=none", "network=none"]
    return gpuyard.simulate(pd.DataFrame(jobs), topology, "fifo", overrides=words)


def test_nobody_is_treated_unfairly_where_nobody_waits_however_long_the_trace():
    submit_s = [1e6 + 977.123 * at for at in range(300)]
    metrics = small_run(
        submit_s=submit_s, duration_s=[123.457 + at / 7 for at in range(300)]
    ).metrics
    assert metrics["queue_delay_mean_s"] == 0.0 and metrics["finish_time_unfair_frac"] == 0.0


def test_fairness_counts_from_the_end_of_the_parents_among_those_who_compete():
    run = small_run(submit_s=[0.0, 0.0], duration_s=[1000.0, 1000.0], parents=["", "j0"])
    assert run.metrics["finish_time_rho_mean"] == run.metrics["finish_time_rho_max"] == 1.0


def test_the_share_of_a_part_of_a_gpu_is_a_part():
    """Ten halves of four GPUs: eight run at once, so each has more than its tenth; two wait."""
    run = small_run(submit_s=[0.0] * 10, duration_s=[1000.0] * 10, gpu_milli=[500] * 10)
    first = 1000.0 / (1000.0 * 0.5 / (4 / 10))  # among ten for its whole stay
    last = 2000.0 / (1000.0 * max(1.0, 0.5 / (4 / 6)))  # ten, then two: six in the mean
    assert run.jobs["gpu_milli"].tolist() == [500] * 10
    assert finish_time_rho(run.raw) == pytest.approx([first] * 8 + [last] * 2)


def test_energy_is_busy_and_idle_time_by_type(hand):
    """Server 0 (p100) has a job on one of its 2 GPUs for 3600 s, server 1 (t4) nothing."""
    jobs = [hand.Job(0.0, 3600.0, ((0.0, 3600.0, [0]),))]
    run = replace(hand.build_run(jobs, 2, 2, 1, (), ("p100", "t4")), watts=WATTS)
    assert energy_metrics(run)["energy_kwh"] == pytest.approx((250 + 28 + 2 * 10) / 1000)
    down = hand.build_run(jobs, 2, 2, 1, ((0.0, Kind.SERVER_DOWN, [2, 3]),), ("p100", "t4"))
    down = replace(down, watts=WATTS)
    assert energy_metrics(down)["energy_kwh"] == pytest.approx((250 + 28) / 1000)


def test_energy_of_an_unknown_gpu_is_not_guessed(hand):
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),))]
    run = replace(hand.build_run(jobs, 2, 2, 1, (), ("p100", "abacus")), watts=WATTS)
    assert np.isnan(energy_metrics(run)["energy_kwh"])
