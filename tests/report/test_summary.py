"""Metrics of hand-made runs against numbers worked out on paper."""

import dataclasses
import math

import numpy as np
import pytest

from sim.errors import SimulationError
from sim.placers.by_room import FirstFit
from sim.report.job_times import full_speed, log_ratios, mean_interval, spans, throughput
from sim.report.summary import HEADLINE_KEYS, summarise
from sim.run import Kind
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.report.run_builder import log_with
from tests.sim.worlds import Job, cluster, physics_of, play, world


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
    metrics = summarise(dataclasses.replace(run, run_gpu_s=np.array([20.0])))
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
            summarise(dataclasses.replace(gantt, **wrong))


def test_work_in_a_span_and_spans_of_placements():
    # GPU 0   AAAAAAAAAA      one GPU each; C on both from 10 to 14
    # GPU 1   .BBBB.....
    run = play(
        world([Job(0, 1, 10), Job(1, 1, 4), Job(2, 2, 4)], cluster(2, 1, servers_per_rack=1)),
        Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=False),
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


@pytest.mark.parametrize(
    ("ours", "theirs", "confidence", "words"),
    [([1.0], [1.0, 2.0], 0.95, "equally many"), ([0.0], [1.0], 0.95, "above 0"),
     ([], [], 0.95, "at least one"), ([1.0, 2.0], [1.0, 2.0], 95, "like 0")],
)  # fmt: skip
def test_impossible_pairs_are_refused(ours, theirs, confidence, words):
    with pytest.raises(ValueError, match=words):
        mean_interval(log_ratios(ours, theirs), confidence)
