"""Failures, evictions, leases, withdrawals and servers that go down, by hand."""

import dataclasses

import numpy as np
import pytest

from sim.errors import SimulationError
from sim.jobs import CANCELLED, FAILED, Fates, Precedence, Urgency
from sim.report.balance import check_run, littles_law_gap
from sim.report.job_times import counted, given_up
from sim.report.summary import summarise
from sim.report.timeline import available_over_time, left_s, outcomes, queue_over_time
from sim.run import Kind
from tests.report.run_builder import log_with

DOWN, UP = Kind.SERVER_DOWN, Kind.SERVER_UP


@pytest.fixture(scope="module")
def life(hand):
    """Six jobs on 2 servers of 2 GPUs; server 1 is down from 20 to 30.

    ::

        t (s)     0    10   20   30   40   50
        GPU 0     AAAAAAAAA AAAAAAAAA                 A: fails at 10, again 12-30
        GPU 1               DDDDDDDDDDDDDD            D: 1 GPU, 20-50
        GPU 2     BBBBBBBBBBxxxxxBBBBB                B: 2 GPUs, evicted at 20, again 30-40
        GPU 3     BBBBBBBBBBxxxxxBBBBB                C: withdrawn at 15, never ran
        GPU 2                         EEEEE           E: 40-45 until its lease ends, then 46-50
        GPU 3                         FFFFF           F: runs 40-48, withdrawn while it runs
    """
    job = hand.Job
    jobs = [
        job(0.0, 28.0, ((0.0, 10.0, [0]), (12.0, 30.0, [0])), ends=(Kind.FAIL, Kind.FINISH)),
        job(0.0, 30.0, ((0.0, 20.0, [2, 3]), (30.0, 40.0, [2, 3])), gpus=2,
            ends=(Kind.EVICT, Kind.FINISH)),
        job(5.0, 100.0, gpus=4, withdrawn_s=15.0),
        job(20.0, 30.0, ((20.0, 50.0, [1]),)),
        job(40.0, 9.0, ((40.0, 45.0, [2]), (46.0, 50.0, [2])), ends=(Kind.EXPIRE, Kind.FINISH)),
        job(40.0, 99.0, ((40.0, 48.0, [3]),), ends=(Kind.WITHDRAW,)),
    ]  # fmt: skip
    events = ((20.0, DOWN, [2, 3]), (30.0, UP, [2, 3]))
    return hand.build_run(jobs, 2, 2, 1, events, ("p100",))


def test_the_run_is_consistent(life):
    check_run(life)
    assert littles_law_gap(life) < 1e-12
    assert left_s(life).tolist() == [30, 40, 15, 50, 50, 48]
    finish_s = life.finish_s.copy()
    finish_s[2], finish_s[5] = 15.0, 48.0  # when the withdrawn jobs left
    other = dataclasses.replace(life, finish_s=finish_s)
    assert summarise(other) == pytest.approx(summarise(life), nan_ok=True)


def changed(life, **columns):
    """The run whose job table has other columns."""
    return dataclasses.replace(life, jobs=dataclasses.replace(life.jobs, **columns))


def test_jobs_wait_after_failing_and_no_more_after_withdrawal(life):
    queue = queue_over_time(life)
    times = np.array([4.0, 6.0, 11.0, 13.0, 16.0, 21.0, 31.0, 45.5, 49.0])
    #                        C     C, A   C     -    B     -     E     -
    assert queue.at(times).tolist() == [0, 1, 2, 1, 0, 1, 0, 1, 0]


def test_servers_that_are_down_take_their_gpus_away(life):
    assert available_over_time(life).at(np.array([0.0, 25.0, 30.0])).tolist() == [4, 2, 4]
    metrics = summarise(life)
    # held: A 28, B 2 x 30, D 30, E 9, F 8 = 135 of 4 x 50 nominal, 180 available
    assert metrics["busy_gpu_s"] == pytest.approx(135.0)
    assert metrics["gpu_util_frac"] == pytest.approx(135 / 200)
    assert metrics["availability_frac"] == pytest.approx(0.9)
    assert metrics["gpu_util_available_frac"] == pytest.approx(135 / 180)
    assert metrics["gpu_nominal_h"] == pytest.approx(200 / 3600)
    assert metrics["gpu_available_h"] == pytest.approx(180 / 3600)
    assert metrics["servers_down"] == 1
    # some job waits 5-15 and 20-30 and 45-46; free: GPU 1 then (5-15), GPU 0 10-12;
    # 20-30: nothing, since GPUs 2 and 3 are down; 45-46: GPUs 0 and 2
    assert metrics["gpu_idle_while_queued_frac"] == pytest.approx((10 + 2 + 2) / 200)


def test_counts_and_times_by_outcome(life):
    metrics = summarise(life)
    assert (metrics["jobs_finished"], metrics["jobs_withdrawn"]) == (4, 2)
    assert metrics["jobs_unfinished"] == 0
    assert outcomes(life).tolist() == [0, 0, CANCELLED, 0, 0, CANCELLED]
    assert metrics["jct_mean_s"] == pytest.approx((30 + 40 + 30 + 10) / 4)
    assert metrics["jct_cancelled_mean_s"] == pytest.approx((10 + 8) / 2)
    assert metrics["jobs_failed"] == 0 and np.isnan(metrics["jct_failed_mean_s"])
    never = np.full(6, np.inf)
    fates = Fates(np.array([FAILED, 0, 0, CANCELLED, 0, 0]), never)
    metrics = summarise(changed(life, fates=fates))
    assert [metrics[f"jobs_{name}"] for name in ("completed", "failed", "cancelled")] == [2, 1, 3]
    assert metrics["jct_failed_mean_s"] == 30.0
    own = dataclasses.replace(life, outcome=np.array([0, 0, 2, 1, 1, 2]))
    assert summarise(own)["jct_failed_mean_s"] == pytest.approx((30 + 10) / 2)


def test_jobs_without_work_that_were_given_up_count_for_no_scheduler(life):
    """Job 0 would have been withdrawn, had it waited: it found a place and ended at once."""
    work_s = np.where(np.arange(6) == 0, 0.0, life.jobs.duration_s)
    fates = Fates(np.zeros(6, dtype=np.int64), np.where(np.arange(6) < 2, 5.0, np.inf))
    told = changed(life, duration_s=work_s, fates=fates)
    assert counted(told).tolist() == [False, True, False, True, True, False]
    assert given_up(told).tolist() == [True, False, True, False, False, True]


def test_the_balance_of_gpu_seconds(life):
    metrics = summarise(life)
    assert metrics["held_gpu_s"] == pytest.approx(135.0)
    assert metrics["useful_gpu_s"] == pytest.approx(28 + 60 + 30 + 9)
    assert metrics["withdrawn_gpu_s"] == pytest.approx(8.0)
    assert metrics["overhead_gpu_s"] == pytest.approx(0.0)
    assert metrics["goodput_frac"] == pytest.approx(127 / 135)
    assert np.isnan(metrics["lost_gpu_s"]) and np.isnan(metrics["interference_frac"])
    part = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    own = dataclasses.replace(life, lost_s=part, comm_s=2 * part, interference_s=part)
    metrics = summarise(own)
    assert metrics["lost_gpu_s"] == pytest.approx(1 + 2 * 2)
    assert metrics["overhead_gpu_s"] == pytest.approx(-5.0)
    assert metrics["interference_frac"] == pytest.approx(5 / 135)
    assert metrics["comm_frac"] == pytest.approx(10 / 135)
    assert metrics["comm_gpu_s"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("lost_s", -1.0, "lost_s -1"), ("comm_s", np.nan, "comm_s nan"),
     ("interference_s", 28.5, "comm_s [+] interference_s")],
)  # fmt: skip
def test_parts_that_cannot_be_are_refused(life, column, value, words):
    part = np.zeros(6)
    part[0] = value
    with pytest.raises(SimulationError, match=f"job-0.*{words}"):
        check_run(dataclasses.replace(life, **{column: part}))


def test_gpu_seconds_that_appear_from_nowhere_are_refused(life):
    """The job's second attempt is logged on one GPU although its gang is two."""
    gpus = list(life.log.gpus)
    for event in np.flatnonzero((life.log.job == 1) & (life.log.time_s >= 30)):
        gpus[event] = gpus[event][:1]
    log = dataclasses.replace(life.log, gpus=tuple(gpus))
    with pytest.raises(SimulationError, match=r"job-1 held 50.*ran 60.*conserved"):
        check_run(dataclasses.replace(life, log=log))


@pytest.mark.parametrize(
    ("gpu", "events", "words"),
    [(2, ((20.0, DOWN, [2, 3]), (25.0, UP, [2, 3])), r"down for 5\.000 GPU-seconds"),
     (0, ((20.0, UP, [2, 3]),), r"a server gives back GPU 2 at t=20\.000")],
)  # fmt: skip
def test_jobs_on_servers_that_are_down_and_servers_up_before_they_went_down(
    hand, gpu, events, words
):
    run = hand.build_run([hand.Job(0.0, 30.0, ((0.0, 30.0, [gpu]),))], 2, 2, 1, events)
    with pytest.raises(SimulationError, match=words):
        summarise(run)


def test_logs_of_attempts_that_start_twice_or_of_times_that_go_back_are_refused(life):
    kind, run_s, time_s = life.log.kind.copy(), life.run_s.copy(), life.log.time_s.copy()
    kind[np.flatnonzero(kind == Kind.FAIL)[0]] = Kind.FORWARD
    run_s[0] = 30 - 0 - 12  # as the log now reads: -0 - 12 + 30
    twice = dataclasses.replace(life, log=dataclasses.replace(life.log, kind=kind), run_s=run_s)
    with pytest.raises(SimulationError, match=r"job-0 starts while it runs at t=12"):
        check_run(twice)
    time_s[int(np.flatnonzero(time_s == 12.0)[0])] = 3.0
    log = dataclasses.replace(life.log, time_s=time_s)
    with pytest.raises(SimulationError, match=r"t=3\.0.*before the one that precedes"):
        check_run(dataclasses.replace(life, log=log))


def test_deadlines(life):
    never = np.inf
    urgency = Urgency(np.zeros(6, dtype=int), np.array([29.0, 41.0, 1.0, never, 50.0, never]))
    metrics = summarise(changed(life, urgency=urgency))
    assert (metrics["deadline_jobs"], metrics["deadline_missed"]) == (3, 1)
    assert metrics["deadline_miss_frac"] == pytest.approx(1 / 3)
    assert np.isnan(summarise(life)["deadline_miss_frac"])


def test_workflows_last_from_first_submission_to_last_finish(hand):
    """0 -> 1 is one workflow (0-30); 2 -> 3 another, whose child is withdrawn before it is ready;

    4 is a job of no workflow.
    """
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        job(0.0, 20.0, ((10.0, 30.0, [0]),), ready_s=10.0),
        job(5.0, 5.0, ((5.0, 8.0, [1]),), ends=(Kind.WITHDRAW,)),
        job(5.0, 5.0, withdrawn_s=8.0),
        job(6.0, 5.0, ((8.0, 13.0, [1]),)),
    ]
    run = hand.build_run(jobs, 1, 2, 1)
    precedence = Precedence(
        np.array([0, 0, 1, 1, 2, 2]), np.array([0, 2]), np.array([0, 0, 1, 1, -1])
    )
    metrics = summarise(changed(run, precedence=precedence))
    assert metrics["workflows_finished"] == 1
    assert metrics["workflow_time_mean_s"] == 30.0
    assert metrics["jobs_withdrawn"] == 2
    assert metrics["queue_len_mean"] == pytest.approx(2.0 / 30.0)  # only job 4 waits, 6-8
    assert summarise(hand.build_run(jobs[:1], 1, 2, 1))["workflows_finished"] == 0


def test_a_withdrawal_that_the_log_does_not_know_is_refused(life):
    keep = ~((life.log.kind == Kind.WITHDRAW) & (life.log.job == 2))
    log = log_with(life.log, keep)
    finish_s = life.finish_s.copy()
    finish_s[2] = 15.0
    with pytest.raises(SimulationError, match="Little's law"):
        check_run(dataclasses.replace(life, log=log, finish_s=finish_s))
