"""Metrics of hand-made runs: jobs, attempts, what GPUs and partitions saw, fairness, energy."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.api.running import Run as Played
from sim.errors import SimulationError
from sim.report import gpu_use, timeline
from sim.report.balance import finish_time_rho
from sim.report.job_times import full_speed, log_ratios, mean_interval, spans, throughput
from sim.report.run_tables import job_columns
from sim.report.summary import HEADLINE_KEYS, energy_metrics, summarise
from sim.report.timeline import unusable_changes
from sim.run import Kind
from sim.topology.topology import Watts
from tests.report.run_builder import log_with
from tests.sim.worlds import Job, cluster, fifo, physics_of, play, world


def test_the_gantt_chart_gives_the_numbers_of_the_paper_sheet(gantt):
    # JCT:   A 20, B 20, C 30, D 30, E 25        sum 125
    # run:   A 20, B 10, C 15, D 30, E 20
    # wait:  A  0, B 10, C 15, D  0, E  5        sum 30
    # busy: GPU 0: 0-40 = 40; GPU 1: 0-20, 30-40 = 30; GPU 2: 10-40 = 30; GPU 3: 10-35 = 25
    metrics = summarise(gantt)
    assert tuple(metrics)[:10] == HEADLINE_KEYS
    expected = {
        "jobs_finished": 5, "jobs_unfinished": 0, "jct_mean_s": 25, "jct_p50_s": 25,
        "jct_p95_s": 30, "queue_delay_mean_s": 6, "makespan_s": 40,
        "slowdown_mean": 1.55,  # 1, 2, 2, 1.5, 1.25
        "run_stretch_mean": 1.1,  # 1, 1, 1, 1.5, 1
        "preemptions": 1, "forwards": 1, "decision_ms_mean": 50, "loop_wall_s": 0.5, "decisions": 4,
        "busy_gpu_s": 125, "gpu_util_frac": 125 / (4 * 40),
        "shared_gpu_frac": 5 / 125,  # only GPU 2 is shared, 10-15
        "queue_len_mean": 30 / 40,  # B 10-20, C 15-30, E 10-15
        "gpu_idle_while_queued_frac": 10 / 160,  # some job waits 10-30; GPU 1 is idle in 20-30
        "gpu_util_steady_frac": 0.5,  # measured submissions 0-10: only GPUs 0 and 1 are busy
        "gang_servers_1_frac": 1, "gang_compact_frac": 1,
        # mean waits by home: (0 + 10) / 2 = 5 and (15 + 0 + 5) / 3 = 20 / 3
        "partition_wait_max_s": 20 / 3,
        "partition_wait_jain": (5 + 20 / 3) ** 2 / (2 * (25 + 400 / 9)),
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_times_are_over_the_duration_on_the_gpu_type_that_it_is_of():
    # Work is counted on x, a y is twice as fast. All three would take 20 s alone on a y: 40 of
    # work. A runs on the x from 0 to 40, B on the y to 20, C there from 20 to 40.
    topology = cluster(2, 1, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 0.5))
    jobs, speed = [Job(0, 1, 20), Job(0, 1, 20), Job(20, 1, 20)], np.full(3, 2.0)
    run = play(world(jobs, topology, physics=physics, traits={"speed": speed}), fifo())
    assert run.finish_s.tolist() == [40.0, 20.0, 40.0]
    metrics = summarise(run)
    expected = {
        "slowdown_mean": 4 / 3, "run_stretch_mean": 4 / 3, "useful_gpu_s": 60, "held_gpu_s": 80,
        "overhead_gpu_s": 20, "goodput_frac": 0.75,
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert finish_time_rho(run) == pytest.approx([2.0, 1.0, 1.0])  # two jobs, two GPUs
    assert job_columns(run)["duration_s"].tolist() == [20.0, 20.0, 20.0]
    assert throughput(run, full_speed(run.jobs, topology, physics), 0.0, 40.0) == 120 / 40


def test_spread_gangs_are_counted_by_their_last_placement(hand):
    # 3 servers x 2 GPUs, racks of 2 servers: one gang on servers 0+2 (2 racks), one on 0+1
    jobs = [
        hand.Job(0.0, 10.0, ((0.0, 10.0, [0, 4]),), gpus=2),
        hand.Job(5.0, 10.0, ((5.0, 6.0, [2, 3, 5]), (10.0, 20.0, [0, 1, 2])), gpus=3),
        hand.Job(5.0, 10.0, ((20.0, 30.0, [0]),), gpus=1),
    ]
    metrics = summarise(hand.build_run(jobs, servers=3, gpus_per_server=2, partitions=1))
    assert metrics["gang_servers_2_frac"] == 1.0
    assert metrics["gang_compact_frac"] == 0.5  # the gang of 3 needs 2 servers, the other not
    assert metrics["gang_racks_1_frac"] == 0.5


def test_an_elastic_gang_is_compact_by_what_it_holds_and_a_batch_has_no_steady_use(hand):
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0, 1]),), gpus=4)]  # on two of the four it asked for
    run = hand.build_run(jobs, servers=2, gpus_per_server=2, partitions=1)
    metrics = summarise(replace(run, run_gpu_s=np.array([20.0])))
    assert metrics["gang_compact_frac"] == 1.0
    assert metrics["gpu_util_frac"] == 0.5
    assert math.isnan(metrics["gpu_util_steady_frac"])


def test_job_metrics_leave_out_warm_up_and_drain_but_cluster_metrics_do_not(hand):
    # GPU 0: W 0-100, then M 100-110, then L 110-200; only M is measured
    jobs = [
        hand.Job(0.0, 100.0, ((0.0, 100.0, [0]),), measured=False),
        hand.Job(50.0, 10.0, ((100.0, 110.0, [0]),)),
        hand.Job(60.0, 90.0, ((110.0, 200.0, [0]),), measured=False),
    ]
    metrics = summarise(hand.build_run(jobs, servers=1, gpus_per_server=1, partitions=1))
    assert metrics["jobs_finished"] == 1
    assert metrics["jct_mean_s"] == pytest.approx(60.0)
    assert metrics["queue_delay_mean_s"] == pytest.approx(50.0)
    assert metrics["makespan_s"] == pytest.approx(200.0)
    assert metrics["gpu_util_frac"] == pytest.approx(1.0)


def test_an_unfinished_job_is_counted_and_left_out_of_the_means(hand):
    jobs = [
        hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        hand.Job(2.0, 10.0),  # never started
        hand.Job(4.0, 50.0, ((6.0, 60.0, [1]),), finished=False),
    ]
    metrics = summarise(hand.build_run(jobs, servers=1, gpus_per_server=2, partitions=1))
    assert (metrics["jobs_finished"], metrics["jobs_unfinished"]) == (1, 2)
    assert metrics["jct_mean_s"] == pytest.approx(10.0)


def test_jobs_of_zero_seconds_and_of_no_measure_do_no_harm(hand):
    jobs = [hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),)), hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),))]
    metrics = summarise(hand.build_run(jobs, servers=1, gpus_per_server=1, partitions=1))
    assert metrics["jct_mean_s"] == metrics["makespan_s"] == metrics["gpu_util_frac"] == 0.0
    assert metrics["slowdown_mean"] == 0.0 and metrics["bounded_slowdown"] == 1.0
    assert np.isnan(metrics["run_stretch_mean"])
    jobs = [hand.Job(0.0, 5.0, ((0.0, 5.0, [0]),), measured=False)]
    metrics = summarise(hand.build_run(jobs, servers=1, gpus_per_server=1, partitions=1))
    assert metrics["jobs_finished"] == 0 and metrics["makespan_s"] == 5.0
    assert np.isnan(metrics["jct_mean_s"]) and np.isnan(metrics["partition_wait_jain"])


def test_what_the_log_does_not_know_is_refused(gantt):
    keep = ~((gantt.log.kind == Kind.START) & (gantt.log.job == 3))
    for wrong, words in (
        ({"finish_s": gantt.finish_s + np.array([0, 0, 0, 0, 1.0])}, "Little's law"),
        ({"run_s": gantt.run_s - np.array([0, 0, 1.0, 0, 0])}, "job-2 has run_s 14"),
        ({"log": log_with(gantt.log, keep)}, "job-3"),
    ):
        with pytest.raises(SimulationError, match=words):
            summarise(replace(gantt, **wrong))


def test_work_in_a_span_and_spans_of_placements():
    # GPU 0   AAAAAAAAAA      one GPU each; C on both from 10 to 14
    # GPU 1   .BBBB.....
    run = play(
        world([Job(0, 1, 10), Job(1, 1, 4), Job(2, 2, 4)], cluster(2, 1, servers_per_rack=1)),
        fifo(skip_blocked=False),
    )
    worth = full_speed(run.jobs, run.topology, physics_of(run.topology))
    assert worth.tolist() == [1.0, 1.0, 2.0]  # without profiles for gangs a GPU is worth one
    assert throughput(run, worth, 0.0, 14.0) == pytest.approx((10 + 4 + 8) / 14)
    assert throughput(run, worth, 0.0, 2.0) == pytest.approx((2 + 1) / 2)
    assert throughput(run, worth, 11.0, 13.0) == pytest.approx(2.0)
    assert [each.tolist() for each in spans(run)] == [[1, 1, 2], [1, 1, 2]]  # servers, racks


def test_a_mean_interval_is_students():
    # mean 3, sd sqrt(2.5), t(0.975, 4) = 2.776
    interval = mean_interval([1, 2, 3, 4, 5], 0.95)
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert (interval.centre, interval.count) == (3.0, 5)
    assert (interval.low, interval.high) == pytest.approx((3 - half, 3 + half))
    assert math.isnan(mean_interval([4.0], 0.95).low)
    assert math.isnan(mean_interval(log_ratios([1.0], [2.0]), 0.95).exp().high)


def test_95_percent_intervals_cover_the_truth_95_percent_of_the_time():
    rng = np.random.default_rng(1)
    samples = [mean_interval(rng.normal(7, 2, size=6), 0.95) for _ in range(1000)]
    covered = np.mean([s.low <= 7 <= s.high for s in samples])
    assert 0.93 <= covered <= 0.97


def test_pairing_sees_a_ratio_that_the_windows_hide():
    windows = np.array([10.0, 100.0, 1000.0, 50.0])
    logs = log_ratios(windows * np.array([0.79, 0.80, 0.81, 0.80]), windows)
    interval = mean_interval(logs, 0.95).exp()
    assert interval.centre == pytest.approx(0.8, abs=1e-3)
    assert 0.77 < interval.low < interval.high < 0.83


def test_an_end_that_no_number_holds_is_infinite():
    interval = mean_interval([-1.0, 1.0], 0.9999).exp()
    assert (interval.centre, interval.low, interval.high) == (1.0, 0.0, np.inf)


def test_attempts_of_the_gantt_chart(gantt):
    attempts = gpu_use.attempts_of(gantt)
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
    attempts = gpu_use.attempts_of(cut_off)
    assert attempts.end_s.tolist() == [30.0, 30.0]
    assert attempts.open.tolist() == [False, True]
    run = hand.build_run([hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),))], 1, 1, 1)
    attempts = gpu_use.attempts_of(run)
    assert (attempts.start_s.tolist(), attempts.end_s.tolist()) == ([3.0], [3.0])


def test_busy_time_of_each_gpu(gantt):
    busy = partial(gpu_use.frac_by_gpu, timeline.gpu_changes(gantt.log), 4)
    assert busy(start_s=0.0, end_s=40.0) * 40 == pytest.approx([40, 30, 30, 25])
    assert busy(start_s=20.0, end_s=30.0) == pytest.approx([1, 0, 1, 1])
    assert busy(start_s=36.0, end_s=36.0).tolist() == [1, 1, 1, 0]
    down = timeline.down_changes(gantt.log)
    assert gpu_use.frac_by_gpu(down, 4, start_s=0.0, end_s=40.0).tolist() == [0, 0, 0, 0]


def test_queues_of_partitions_follow_jobs_that_are_forwarded(hand):
    """A runs in partition 0 while B waits there 2-6, is forwarded to 1 and waits on until 9."""
    job = hand.Job
    jobs = [
        job(0.0, 20.0, ((0.0, 20.0, [0]),)),
        job(2.0, 5.0, ((9.0, 14.0, [1]),), home=1, forwarded_s=(6.0,)),
    ]
    run = hand.build_run(jobs, servers=2, gpus_per_server=1, partitions=2)
    run.log.partition[np.flatnonzero((run.log.job == 1) & (run.log.time_s == 2.0))] = 0
    first, second = gpu_use.queue_by_partition(run)
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
    steps = gpu_use.unusable_free_over_time(scattered, unusable_changes(scattered.log))
    assert steps.at(np.array([0.0, 5.0, 10.0, 15.0, 20.0])) == pytest.approx([2, 2, 0, 0, 0])
    metrics = gpu_use.fragmentation_metrics(scattered)
    assert metrics["fragmented_free_frac"] == pytest.approx(2 * 10 / (6 * 10 + 4 * 10))
    # 0-10: 6 GPUs free, a gang of 4 waits
    assert metrics["gpu_idle_while_fitting_frac"] == pytest.approx(60 / (8 * 20))


def test_gangs_larger_than_what_is_free_are_no_fragmentation_nor_gpus_that_are_down(hand):
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1]),), gpus=2),
        job(0.0, 10.0, ((10.0, 20.0, [0, 1, 2]),), gpus=3),
    ]
    run = hand.build_run(jobs, servers=1, gpus_per_server=4, partitions=1)
    assert gpu_use.fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == 0.0
    jobs = [job(0.0, 10.0, ((0.0, 10.0, [0]),)), job(0.0, 5.0, ((10.0, 15.0, [0]),))]
    run = hand.build_run(jobs, 2, 2, 1, ((0.0, Kind.SERVER_DOWN, [2, 3]),))
    # one job of 1 GPU waits 0-10 while only GPU 1 is free
    assert gpu_use.fragmentation_metrics(run)["gpu_idle_while_fitting_frac"] == pytest.approx(
        10 / 60
    )


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
    steps = gpu_use.unusable_free_over_time(run, unusable_changes(run.log))
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
    topology = cluster(1, 4, servers_per_rack=1, types=("p100",))
    words = ["estimator=oracle", "interference=none", "network=none"]
    return gpuyard.simulate(pd.DataFrame(jobs), topology, "fifo", overrides=words)


def test_nobody_is_treated_unfairly_where_nobody_waits_but_for_parents():
    at = np.arange(300)  # a long trace of times that are no round numbers
    found = small_run(submit_s=1e6 + 977.123 * at, duration_s=123.457 + at / 7).metrics
    assert found["queue_delay_mean_s"] == 0.0 and found["finish_time_unfair_frac"] == 0.0
    found = small_run(submit_s=[0.0] * 2, duration_s=[1000.0] * 2, parents=["", "j0"]).metrics
    assert found["finish_time_rho_mean"] == found["finish_time_rho_max"] == 1.0


def test_what_rounding_leaves_of_no_wait_is_nobodys_share_of_waiting(hand):
    """One of two homes has a job whose attempts, 2.2 s and 6 s, are less than its 8.2 s in bits."""
    stays = 0.2, ((0.2, 2.4, [0]), (2.4, 8.4, [0]))
    jobs = [hand.Job(stays[0], 8.0, stays[1]), hand.Job(1.0, 5.0, ((1.0, 6.0, [4]),), home=1)]
    assert (8.4 - 0.2) - ((2.4 - 0.2) + (8.4 - 2.4)) > 0
    found = summarise(hand.build_run(jobs, servers=2, gpus_per_server=4, partitions=2))
    assert found["partition_wait_jain"] == 1.0 and found["partition_wait_max_s"] == 0.0


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
